# The steps of a run, in their order, each with what the journal says of it and its document. `jq` was called with the words of
# journal.sh's `steps_of_run`: for each time that a step was started four positional ones (its files' name, kind, when it was begun
# in seconds since 1970, its exit status or nothing), and the text of its document by that name, where there is one.

# The one document of a text; null where it is none, or cut off, or not alone.
def whole: try (fromjson | select(type == "object" and has("ok"))) catch null;

# A step that was started and left no whole document is unknown, unless it only looked at something.
def steps:
  $ARGS as {named: $texts, positional: $words}
  | [range(0; $words | length; 4) | $words[. : . + 4] as [$files, $kind, $begun, $exit_status]
     | ($files | capture("^(?<number>[0-9]+)-(?<step>.*?)([.](?<attempt>[0-9]+))?$")) as $name
     | (if $texts[$files] then [$texts[$files] | whole][0] else null end) as $document
     | {number: $name.number, step: $name.step, attempt: ($name.attempt // "1" | tonumber), kind: $kind,
        begun_ms: ($begun | tonumber * 1000 | floor), exit_status: ($exit_status | tonumber? // null), ended: ($document != null),
        document: ($document // {
          schema: null, ok: false, changed: (if $kind == "check" then false else null end), duration_ms: 0,
          error: {code: "no_document", retryable: false, causes: []}})}];
