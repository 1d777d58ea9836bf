# How sizes, times and columns are written for people. (jq -L "$lib", include "people";)

# A number of bytes.
def size: if . < 1048576 then "\(. / 1024 | ceil) kB" elif . < 1073741824 then "\(. / 104857.6 | floor / 10) MB"
  else "\(. / 107374182.4 | floor / 10) GB" end;

# A number of milliseconds.
def time: if . < 1000 then "\(.) ms" elif . < 60000 then "\(. / 100 | floor / 10) s"
  elif . < 3600000 then "\(. / 60000 | floor) m \(. % 60000 / 1000 | floor) s"
  else "\(. / 3600000 | floor) h \(. % 3600000 / 60000 | floor) m" end;

def left($width): . + " " * ([$width - length, 0] | max);
def right($width): " " * ([$width - length, 0] | max) + .;
