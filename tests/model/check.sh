#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the model with Spin, within a limit of memory. An "ok" row must hold in every order of events; a "bad" row takes
# a rule out and must fail. safe: assertions and ends; live: also that nothing goes round for ever (weak fairness).
# Without Spin or a C compiler the test is skipped (77).
set -u
here=$(cd "$(dirname "$0")" && pwd)
for tool in spin gcc; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "skipped: there is no $tool"
        exit 77
    fi
done
MEMORY_KB=1000000
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp" || exit 1
failed=0

# row ok|bad safe|live SWITCH...
row() {
    want=$1
    kind=$2
    shift 2
    case $kind in
    safe) compile="-DSAFETY" run="" ;;
    live) compile="-DNP -DNFAIR=4" run="-l -f" ;;
    esac
    # shellcheck disable=SC2086 # words on purpose
    if ! spin -a "$@" "$here/grants.pml" >log 2>&1 || ! gcc -O1 -w $compile -DCOLLAPSE -o pan pan.c >>log 2>&1; then
        cat log
        echo "FAILED to build: $*"
        failed=1
        return
    fi
    # shellcheck disable=SC2086
    (ulimit -v "$MEMORY_KB" && exec ./pan $run -m200000 -w23) >log 2>&1
    got=incomplete
    if ! grep -q 'depth too small\|not completed\|out of memory' log; then
        grep -q 'errors: 0' log && got=ok
    fi
    grep -q '^pan:[0-9]*: \(assertion\|non-progress\|invalid\)' log && got=bad
    verdict=
    if [ "$got" != "$want" ]; then
        verdict=" FAILED, it should be $want:"
        failed=1
    fi
    echo "$got $kind $*:$verdict $(grep -o '[0-9]* states, stored' log) $(grep '^pan:[0-9]*:' log | cut -c1-80)"
}

row ok safe -DFUEL=2 -DHEDGE
row ok safe -DFUEL=1 -DN=3
row ok live -DFUEL=1
row ok live -DFUEL=1 -DHUNG
row ok live -DFUEL=2 -DALONE

row bad safe -DFUEL=1 -DNO_ACCOUNT
row bad safe -DFUEL=1 -DNO_BITLAST
row bad safe -DFUEL=1 -DNO_REPEAT
row bad safe -DFUEL=1 -DNO_SECONDACCOUNT
row bad safe -DFUEL=1 -DNO_HELLOAGAIN
row bad safe -DFUEL=1 -DNO_FREESLOT -DN=3
row bad safe -DFUEL=2 -DNO_DEADCHECK -DHEDGE
row bad safe -DFUEL=2 -DNO_OVERWRITECHECK -DHEDGE
row bad safe -DFUEL=2 -DNO_STALE -DHEDGE
row bad live -DFUEL=1 -DNO_BADCREDIT -DALONE
row bad live -DFUEL=1 -DNO_BIND -DALONE
row bad live -DFUEL=1 -DNO_ENDCREDIT -DALONE
row bad live -DFUEL=1 -DNO_NEWATTEMPT -DALONE
row bad live -DFUEL=1 -DNO_REJECT -DALONE
row bad live -DFUEL=1 -DNO_REPLACE -DALONE
row bad live -DFUEL=1 -DNO_RETURNCREDIT -DALONE
row bad live -DFUEL=1 -DNO_SILENCE -DALONE
row bad live -DFUEL=1 -DNO_STEPSLOT -DALONE
row bad live -DFUEL=0 -DNO_EXPIRY -DHUNG
row bad live -DFUEL=2 -DNO_WELCOMEATTEMPT -DALONE -DN=1
exit $failed
