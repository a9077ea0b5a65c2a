#!/bin/sh
# Examines a Mac before it joins a cluster. It changes nothing, needs no administrator and nothing that macOS lacks:
#
#   sh examine-mac.sh            print the preconditions, and write one file to send in
#   sh examine-mac.sh FILE       write this file; - for standard output, without the preconditions
#   sh examine-mac.sh --verbs    also open the RDMA driver while something uses it, which is a risk to that
#
# The file has what each tool printed, without serial numbers, names, public addresses and the like: see for yourself
# before you send it. The same verdicts, and more of them: reconciler node examine --file FILE
#
# Written by `python -m reconciler.inventory.examination.script`, from the tables that the controller uses.
set -u
umask 077
LC_ALL=C
export LC_ALL

verbs='' target=''
for word in "$@"; do
    case $word in
    --verbs) verbs=yes ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -?*) echo "examine-mac.sh: unknown option $word; expected --verbs, or the name of a file to write" >&2; exit 2 ;;
    *) target=$word ;;
    esac
done

# A Mac's tools are in the system's folders, whatever the search path.
own=$(command -v sw_vers) || own=/usr/bin/sw_vers
PATH=${own%/*}:/usr/bin:/bin:/usr/sbin:/sbin:/usr/libexec/ApplicationFirewall
export PATH
if [ "$(uname -s)" != Darwin ]; then
    echo "examine-mac.sh: this is no Mac: its system is $(uname -s)" >&2
    exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/examine.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
mkfifo "$work/ends" || exit 1
exec 3<>"$work/ends"
run=0 ending='' status=0

# Time passes in this pipe as well, so that one wait is for whatever comes first. Nothing here is ended by a signal that a
# shell has a trap for, and no shell waits for a job: both are lost now and then.
(while kill -0 "$$" && sleep 1; do echo tick >&3; done) </dev/null >/dev/null 2>&1 &

# Run a command for a limited number of seconds; its output is in $work/out and $work/err, its end in $ending and $status.
# A command that even SIGKILL does not end is left alone.
bounded() {
    seconds=$1 waited=0
    shift
    run=$((run + 1)) ending=absent status=0
    rm -f "$work/out" "$work/err" "$work/tool" # the last tool may still write to its own
    : >"$work/out"
    : >"$work/err"
    command -v "$1" >/dev/null || return 0
    (
        ulimit -f @BLOCKS@
        # shellcheck disable=SC2016 # for the shell that becomes the tool
        sh -c 'echo "$$" >"$0"; exec "$@"' "$work/tool" "$@" >"$work/out" 2>"$work/err" </dev/null
        echo "$run ended $?" >&3
    ) 2>/dev/null &
    while read -r number ending status <&3; do
        [ "$number" != "$run" ] || break
        [ "$number" != tick ] || waited=$((waited + 1))
        if [ "$waited" -gt "$seconds" ]; then
            kill -9 "$(cat "$work/tool")" 2>/dev/null
            ending=late
            break
        fi
    done
    if [ "$ending" = ended ] && [ "$status" = @TOO_LARGE@ ]; then
        ending=endless
        head -n 20 "$work/out" >"$work/cut"
        mv "$work/cut" "$work/out"
    fi
}

# Print each line of a file after a mark, and whether the last one is complete.
marked() {
    [ -s "$2" ] || return 0
    tr -d '\000' <"$2" | awk -v mark="$1" '{ print mark "|" $0 }'
    [ "$(tail -c 1 "$2" | wc -l)" -gt 0 ] || echo "$1: its last line is not ended"
}

# Run a probe: its name, its time limit, its command for people, and its command.
probe() {
    name=$1 limit=$2 shown=$3
    shift 3
    [ ! -t 2 ] || printf '\r\033[K%s ...' "$name" >&2
    bounded "$limit" "$@"
    printf 'probe: %s\ncommand: %s\nending: %s\n' "$name" "$shown" "$ending"
    [ "$ending" != ended ] || printf 'status: %s\n' "$status"
    marked out "$work/out"
    marked err "$work/err"
    cp "$work/out" "$work/$(echo "$name" | tr ' ' -).out"
    cp "$work/err" "$work/$(echo "$name" | tr ' ' -).err"
    echo
}

# Report a probe that is left out: its name, its command, and the reason.
left_out() {
    printf 'probe: %s\ncommand: %s\nending: left out\nwhy: %s\n\n' "$1" "$2" "$3"
}

# Succeed if a probe printed such a line.
printed() {
    file=$work/$(echo "$1" | tr ' ' -)
    cat "$file.out" "$file.err" 2>/dev/null | grep -Eq "$2"
}

# Names of this machine and its people, to be replaced: a word for each, a tab, the name.
names() {
    for word in user:id:-un user:id:-F host:uname:-n host:scutil:--get:ComputerName host:scutil:--get:LocalHostName \
        host:scutil:--get:HostName; do
        kind=${word%%:*}
        # shellcheck disable=SC2046 # the words of a command
        bounded 5 $(echo "${word#*:}" | tr : ' ')
        [ "$status" = 0 ] || continue
        sed -n "1s/^/$kind	/p" "$work/out"
        if [ "$kind" = host ]; then sed -n "1s/^\([^.]*\)\..*/$kind	\1/p" "$work/out"; fi
    done
    printf 'user\t%s\n' "${HOME##*/}"
    bounded 5 ioreg -rd1 -c IOPlatformExpertDevice
    sed -n 's/.*"IOPlatformSerialNumber" = "\(.*\)".*/SERIAL	\1/p' "$work/out"
}

reached() {
    if [ -n "${SSH_CONNECTION-}" ]; then echo ssh; else echo terminal; fi
}

circumstances() {
    printf 'reached: %s\nterminal: %s\n' "$(reached)" "${TERM_PROGRAM-}"
}

probes() {
@PROBES@
}

# Print a row of the preconditions: its name, its verdict, and for what does not pass, what to do and how to see it.
row() {
    printf '%-10s%s\n' "$2" "$1: $3"
    case $2 in pass | n/a) return 0 ;; esac
    [ "$2" = 'see file' ] || printf '          to do   %s\n' "$4"
    printf '          see it  %s\n' "$5"
}

# shellcheck disable=SC2016 # commands for people, in backquotes
preconditions() {
@PRECONDITIONS@
}

circumstances >"$work/circumstances.out"
names >"$work/names" 2>/dev/null
{
    echo "reconciler examination @VERSION@"
    echo "at: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "system: $(uname -s -r -m)"
    cat "$work/circumstances.out"
    echo
    probes
} >"$work/raw"
[ ! -t 2 ] || printf '\r\033[K' >&2
cat >"$work/scrub.awk" <<'END_OF_SCRUB'
@SCRUB@
END_OF_SCRUB
awk -f "$work/scrub.awk" "$work/names" "$work/raw" >"$work/scrubbed" || {
    echo "examine-mac.sh: names and addresses could not be replaced, so nothing is written" >&2
    exit 1
}
if [ "$target" = - ]; then
    cat "$work/scrubbed"
    exit 0
fi
target=${target:-examination-$(date -u +%Y%m%dT%H%M%SZ).txt}
cat "$work/scrubbed" >"$target" || exit 1
preconditions
echo
echo "everything that was read, without names and addresses, is in $target"
