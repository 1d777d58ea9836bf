# What the benchmarks begin with: a folder, servers as an installation has them, hyperfine, and the tables.
# shellcheck shell=bash disable=SC2016 # Markdown
set -euo pipefail

# The administrator of PostgreSQL may write in it too.
work=$(mktemp -d /var/tmp/svc-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
chown postgres "$work"
cd "$work"
# PostgreSQL's own programs, not Debian's wrappers.
PATH=$(jq -r .postgres.bin_dir "$SVC_TESTHOST"):$PATH
export SVC_INDICES='*' SVC_REPOSITORY=svc_backup

# As PostgreSQL's administrator, over its socket.
administer() { runuser -u "$SVC_PG_ADMIN" -- env -u PGUSER -u PGPASSFILE "PATH=$PATH" "$@"; }

# sql DATABASE [SQL]: that, or what is on stdin.
sql() { administer psql -XAtq -v ON_ERROR_STOP=1 -d "$1" ${2:+-c "$2"}; }

# call METHOD PATH [BODY]: curl, as the procedure has it.
call() {
	curl -sS -f --noproxy '*' -X "$1" -H 'Content-Type: application/json' "$SVC_SEARCH_URL$2" ${3:+--data-binary "$3"}
}

# What was measured last is written, so that the next one does not pay for it.
settle() { sql postgres CHECKPOINT; sync; }

empty_repository() {
	local name
	for name in $(call GET "/_snapshot/$SVC_REPOSITORY/_all" | jq -r '.snapshots[].snapshot'); do
		call DELETE "/_snapshot/$SVC_REPOSITORY/$name" >/dev/null
	done
	settle
}

# discard TOOL: what its last restore has replaced.
discard() {
	[[ ! -s restored.json ]] || "$1" discard --run "$(jq -r .run_id restored.json)" >/dev/null
	rm -f restored.json
	settle
}
export -f administer sql call settle empty_repository discard

# The tests' host neither waits for its disk nor compiles well.
real_servers() {
	local name
	for name in fsync synchronous_commit full_page_writes dynamic_shared_memory_type max_connections; do
		sql postgres "ALTER SYSTEM RESET $name"
	done
	printf '%s\n' -Xms1g -Xmx1g -XX:TieredStopAtLevel=4 -XX:-UseSerialGC -XX:+UseG1GC -XX:+AlwaysPreTouch \
		-XX:+BytecodeVerificationRemote >"${SVC_SEARCH_CONFIG%/*}/jvm.options.d/real.options"
	systemctl --user restart "${SVC_PG_UNIT#user:}" "${SVC_SEARCH_UNIT#user:}"
	until pg_isready -q; do sleep 0.1; done
}

# Writes the documents of stdin. A request of more than 100 MB is refused.
bulk() {
	SHELL=$BASH split --lines=400 --filter='call POST /_bulk @- >bulk.json && jq -e ".errors == false" bulk.json >/dev/null'
}

# fill_index NAME MB: documents of 100 KB that cannot be compressed, in one segment: nothing is merged while something is measured.
fill_index() {
	call PUT "/$1" '{"settings": {"number_of_shards": 1, "number_of_replicas": 0},
		"mappings": {"properties": {"t": {"type": "keyword", "index": false, "doc_values": false}}}}' >/dev/null
	head -c "$(($2 * 750000))" /dev/urandom | base64 --wrap=100000 | sed 's/.*/{"index":{"_index":"'"$1"'"}}\n{"t":"&"}/' | bulk
	call POST "/$1/_forcemerge?max_num_segments=1" >/dev/null
	call POST "/$1/_flush" >/dev/null
}

# fill_tables SCHEMA MB: a service's four tables; so many rows were seen to come to that size.
fill_tables() {
	sed -e "s/%SCHEMA%/$1/; s/%USERS%/$((54 * $2))/g; s/%PROJECTS%/$((11 * $2))/g" \
		-e "s/%DOCUMENTS%/$((436 * $2))/g; s/%EVENTS%/$((2720 * $2))/g" "$bench_dir/rows.sql" | sql svc_db
}

# timed NAME [OPTIONS OF HYPERFINE] COMMAND...: measures, into NAME.json.
timed() { hyperfine --style basic --shell 'bash -eo pipefail' --export-json "$1.json" "${@:2}" >&2; }

# row WHAT AGAINST TARGET OURS [THEIRS]: of the first table: a ratio of seconds, or a quantity.
row() {
	awk -v what="$1" -v against="$2" -v target="$3" -v ours="$4" -v theirs="${5-}" '
		function time(s) { return s < 1 ? sprintf("%.1f ms", s * 1000) : sprintf("%.2f s", s) }
		BEGIN {
			value = theirs == "" ? ours + 0 : ours / theirs
			limit = target == "" ? "–" : sprintf("%.2f%s", target, value > target + 0 ? " **missed**" : "")
			times = theirs == "" ? "–" : time(ours) " / " time(theirs)
			printf "| %s | %s | %.2f | %s | %s |\n", what, against, value, limit, times
		}' >>rows.md
}

# ratio WHAT AGAINST TARGET NAME OURS THEIRS: the medians of two commands of NAME.json, by their numbers.
ratio() { row "$1" "$2" "$3" "$(jq ".results[$5].median" "$4.json")" "$(jq ".results[$6].median" "$4.json")"; }

# memory WHAT TARGET COMMAND...: what the largest process of a call holds.
memory() {
	/usr/bin/time --format %M --output memory "${@:3}" >/dev/null
	row "$1, MB of memory" – "$2" "$(awk '{ print $1 * 1.024 / 1000 }' memory)"
}

# growth WHAT NAME: a row of the second table, of NAME-*.json at several sizes n: by which power of n it grows.
growth() {
	jq -rs --arg what "$1" '
		def power(value): map([(.parameters.n | tonumber | log), (value | log)]) | (map(.[0]) | add / length) as $x
			| (map(.[1]) | add / length) as $y | (map((.[0] - $x) * (.[1] - $y)) | add) / (map(.[0] - $x | . * .) | add)
			| . * 100 | round / 100 | "n^\(.)" + if . > 1.15 then " **missed**" else "" end;
		# Less than 10 ms of computing is none.
		map(.results[] | .computing = ([.user + .system, 0.01] | max)) | sort_by(.parameters.n | tonumber)
		| "| \($what) | \(map("\(.parameters.n): \(.median * 1000 | round / 1000) s") | join("; ")) " +
			"| \(power(.median)) | \(power(.computing)) |"' "$2"-*.json >>growth.md
}

# tables SIZES: prints them.
tables() {
	printf 'Measured on %s cores of %s, %.0f GB of memory, %s on Linux %s; %s with 1 GB of heap; PostgreSQL %s with fsync; %s.\n' \
		"$(nproc)" "$(sed -n '/^model name/{s/.*: //p;q}' /proc/cpuinfo)" "$(awk '/^MemTotal/ { print $2 / 1e6 }' /proc/meminfo)" \
		"$(findmnt --noheadings --output FSTYPE --target "$work")" "$(uname -r)" \
		"$(jq -r '.search | "\(.product) \(.version)"' "$SVC_TESTHOST")" "$(postgres --version | awk '{ print $3 }')" "$1"
	printf '\n| | against | ratio | at most | medians |\n|---|---|---|---|---|\n'
	cat rows.md
	[[ ! -e growth.md ]] || printf '\n| | size: time | grows as | computing |\n|---|---|---|---|\n' | cat - growth.md
}
