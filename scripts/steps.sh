# shellcheck shell=bash
# Steps of a script that has little time on a machine that is lent: one that fails or hangs does not
# hide the others, each has a limit, and what is known is on the disk at any moment. Sourced, not run.
#
# Set beforehand: results (a folder), time_limit (seconds after which the script has to be done), stamp_file
# (where run_step_once notes what went well), and patience (limits of single steps are multiplied by it; 1).
# shellcheck disable=SC2154

steps=()
declare -A step_states=()
summary="$results/device.txt"

# plan_steps NAME...: all steps, of which nothing is known yet. What the summary says already stays.
plan_steps() {
  local name
  touch "$summary"
  summary_head=$(cat "$summary")
  steps=("$@")
  for name in "${steps[@]}"; do
    step_states[$name]="not run"
  done
  write_summary
}
# Written anew each time, beside the old one: a script that is killed leaves a whole summary.
write_summary() {
  local name
  {
    [ -z "$summary_head" ] || printf '%s\n' "$summary_head"
    for name in "${steps[@]}"; do printf '%s: %s\n' "$name" "${step_states[$name]}"; done
  } >"$summary.new" && mv "$summary.new" "$summary"
}
set_state() {
  step_states[$1]=$2
  write_summary
  echo "== $1: $2"
}

# skip_step NAME: nobody asked for it.
skip_step() {
  step_states[$1]="not asked for"
  write_summary
}

# within SECONDS COMMAND...: ends a program, and what it started, after that time or when the script has
# to be done.
within() {
  local limit=$(($1 * ${patience:-1})) left=$((time_limit - SECONDS)) code=0
  shift
  [ "$limit" -le "$left" ] || limit=$left
  [ "$limit" -gt 0 ] || { echo "no time is left for $*"; return 124; }
  timeout --kill-after=10 "$limit" "$@" || code=$?
  case $code in 124 | 137) echo "ended after $limit s: $*" ;; esac
  return $code
}

# run_step NAME COMMAND...: its output goes to NAME.txt too. Tests that find no device skip themselves:
# here that is a failure.
run_step() {
  local name=$1 start=$SECONDS result=ok
  shift
  if [ "$SECONDS" -ge "$time_limit" ]; then
    set_state "$name" "not run, since no time is left"
    return 1
  fi
  set_state "$name" "has not ended; began after $start s"
  "$@" >"$results/$name.txt" 2>&1 || result="FAILED (code $?)"
  ! grep -q "needs a CUDA device" "$results/$name.txt" || result="FAILED (no device can be used)"
  tail -n 15 "$results/$name.txt"
  set_state "$name" "$result, took $((SECONDS - start)) s"
  [ "$result" = ok ]
}
# run_step_once NAME STAMP COMMAND...: not again where it went well with the same stamp, in a file whose
# first line the stamp is.
run_step_once() {
  local name=$1 stamp=$2
  shift 2
  if grep -qxF "$stamp" "$stamp_file.$name" 2>/dev/null; then
    set_state "$name" "ok, in an earlier call"
    return 0
  fi
  rm -f "$stamp_file.$name"
  run_step "$name" "$@" && echo "$stamp" >"$stamp_file.$name"
}

# Says what failed, and what was not reached; the exit status is 0 where nothing is left to say.
end_steps() {
  local name code=0
  for name in "${steps[@]}"; do
    case ${step_states[$name]} in
      ok* | "not asked for") ;;
      *) echo "$name: ${step_states[$name]}"; code=1 ;;
    esac
  done
  [ "$code" -ne 0 ] || echo "Everything passed."
  return $code
}
