# A restore point: how it is made (svc-backup, svc-upgrade), and how it is staged beside the live data (svc-rollback, svc-rehearse).
# shellcheck shell=bash disable=SC2154,SC2034 # the scripts' own

point=${SVC_BACKUP_DIR-}/${SVC_RUN_ID-} config=${SVC_CONFIG_FILE-} config=${config##*/}
pgdump=(svc-pgdump --dbname "${SVC_DATABASE-}" ${SVC_DUMP_COMPRESS:+--compress "$SVC_DUMP_COMPRESS"})
# What must answer before the service counts as started.
ready=(${SVC_READY_URL:+--ready-url "$SVC_READY_URL"} ${SVC_READY_CA:+--ready-ca "$SVC_READY_CA"} ${SVC_READY_TCP:+--ready-tcp "$SVC_READY_TCP"})
# While the service is stopped nobody else uses the cluster; and a rollback stages unthrottled, since somebody waits for it.
no_rate_limit() { if [[ ${SVC_INDICES:-*} == '*' && -z ${SVC_RATE_LIMIT-} ]]; then printf '%s\n' --rate-limit none; fi; }
backup_checks() { # CHECK...: whether a restore point can be made; each is a `preflight`, or a `check` with these options
  local output=(--output "$SVC_RUN_DIR/dump.sql") last=("$SVC_BACKUP_DIR"/*/"$SVC_DATABASE.backup.sql")
  # The last dump's size is the best estimate; `space` compares it with the free disk space.
  if ((${#last[@]})); then output=(--output "${last[-1]}" --force); fi
  "$@" unit -- svc-unit status
  "$@" --needs unit ready -- svc-unit start --dry-run "${ready[@]}"
  "$@" search -- svc-snap health
  "$@" repository -- svc-snap verify
  "$@" backup-directory -- svc-point create "$point" --dry-run
  "$@" database -- "${pgdump[@]}" "${output[@]}" --dry-run
  "$@" --needs backup-directory space -- svc-point space --search @search --repository @repository --database @database
  "$@" configuration-present -- svc-confsave save --to "$SVC_RUN_DIR" --dry-run "${layout[@]}"
}
layouts() { case ${config,,} in '') echo yaml conf ;; *.yaml | *.yml | *.yaml.* | *.yml.*) echo yaml ;; *) echo conf ;; esac; }
begin_restore_point() { # KIND: what need not wait for the stop
  undo --until finalize remove-incomplete-point -- svc-point remove "$point" --kind "$1"
  step point -- svc-point create "$point"
  svc-run note restore_point "$point"
  step version -- svc-version current
}
warm_snapshot() { # REASON: snapshots are incremental, so what is stored now need not be stored while the service is down
  undo --always drop-warm-snapshot -- svc-snap delete "$(svc-run snapshot-name warm)" --cancel
  step warm-snapshot -- svc-snap create "$(svc-run snapshot-name warm)" --kind warm "--taken-because=$1"
}
stop_service() { # until `start` or `commit` it is started again, behind the undos of later steps, unless somebody has stopped it before
  step unit-before -- svc-unit status
  undo --until start start-again -- svc-unit start --from @unit-before
  step stop -- svc-unit stop
}
fill_restore_point() { # KIND REASON STEP: the configuration now, both databases in parallel; STEP has seen the unit just before
  local rate=() limit=()
  step configuration -- svc-confsave save --to "$point" "${layout[@]}"
  if [[ $3 == stop ]]; then mapfile -t rate < <(no_rate_limit); fi
  # Nobody watches: what takes for ever must not keep the service stopped.
  if [[ $3 == stop && $1 != upgrade ]]; then limit=(--timeout "${SVC_TIMEOUT:-2h}"); fi
  start dump -- "${pgdump[@]}" --output "$point/$SVC_DATABASE.backup.sql" "${limit[@]}"
  start snapshot -- svc-snap create "$(svc-run snapshot-name "$1")" --kind "$1" "--taken-because=$2" "${rate[@]}" "${limit[@]}"
  # While the service is stopped, what failed ends the other one.
  if [[ $1 == nightly && $3 != stop ]]; then svc-run wait --all dump snapshot; else svc-run wait dump snapshot; fi
  start verify-snapshot -- svc-snap show --from @snapshot
  step unit-after -- svc-unit status
  if [[ $3 == stop && $1 != upgrade ]]; then step --defer start -- svc-unit start --from @unit-before "${ready[@]}"; fi
  svc-run wait verify-snapshot
  step finalize -- svc-point finalize "$point" --kind "$1" --unit "@$3" --unit @unit-after @configuration @version @snapshot @dump
}
preflight_staging() {
  preflight snapshot -- svc-snap stage --from "$point/snapshot.json" "${other_server[@]}" --dry-run
  preflight exchange -- svc-snap restore --from "$point/snapshot.json" "${other_server[@]}" --exact "${drop_old[@]}" --dry-run
  preflight dump -- svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}" --dry-run
}
copies() { if dry || is_done "$1"; then "${@:2}" --from "@$1"; else "${@:2}" --run "$SVC_RUN_ID"; fi; } # by STEP's document or, if lost, its run
stage_both() { # restored and verified, then checked that both can be swapped in; `undo_when` and `impossible` are options of svc-run
  copies stage-search undo "${undo_when[@]}" discard-search -- svc-snap discard
  copies stage-database undo "${undo_when[@]}" discard-database -- svc-pgrestore discard
  start stage-search -- svc-snap stage --from "$point/snapshot.json" "${other_server[@]}" "${rate[@]}"
  start stage-database -- svc-pgrestore stage --from "$point/pgdump.json" "${other_server[@]}"
  svc-run wait stage-search stage-database
  step "${impossible[@]}" swap-search-possible -- svc-snap swap --from @stage-search --exact "${drop_old[@]}" --dry-run
  step "${impossible[@]}" swap-database-possible -- svc-pgrestore swap --from @stage-database "${drop_old[@]}" --dry-run
}
