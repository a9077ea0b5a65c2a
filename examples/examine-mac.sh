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
        ulimit -f 512
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
    if [ "$ending" = ended ] && [ "$status" = 153 ]; then
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
    probe 'Remote Login' 5 'launchctl print system/com.openssh.sshd' launchctl print system/com.openssh.sshd
    probe 'system version' 5 sw_vers sw_vers
    probe settings 5 'sysctl hw.model hw.memsize hw.pagesize machdep.cpu.brand_string kern.boottime iogpu.wired_limit_mb vm.swapusage debug.rdma.version' sysctl hw.model hw.memsize hw.pagesize machdep.cpu.brand_string kern.boottime iogpu.wired_limit_mb vm.swapusage debug.rdma.version
    probe pages 5 vm_stat vm_stat
    probe disk 10 'df -k {home} {models}' df -k "$HOME" "$HOME"/.reconciler/models
    probe interfaces 5 'ifconfig -a' ifconfig -a
    probe routes 5 'netstat -rn -f inet' netstat -rn -f inet
    probe RDMA 5 'rdma_ctl status' rdma_ctl status
    probe 'RDMA setting' 5 'nvram rdma-enable' nvram rdma-enable
    probe 'kernel objects' 5 'ioclasscount AppleThunderboltRDMAProtectionDomain AppleThunderboltRDMAQueuePair' ioclasscount AppleThunderboltRDMAProtectionDomain AppleThunderboltRDMAQueuePair
    probe FileVault 5 'fdesetup status' fdesetup status
    left_out 'agent'"'"'s job' 'launchctl print system/reconciler-{user}-{node}' 'there is no agent yet'
    probe 'rank processes' 5 'pgrep -P 1 -f reconciler[.]runner' pgrep -P 1 -f 'reconciler[.]runner'
    probe 'panic reports' 10 'find /Library/Logs/DiagnosticReports -maxdepth 1 -type f -mmin -60' find /Library/Logs/DiagnosticReports -maxdepth 1 -type f -mmin -60
    probe 'crash reports' 10 'find {home}/Library/Logs/DiagnosticReports -maxdepth 1 -type f -mmin -60' find "$HOME"'/Library/Logs/DiagnosticReports' -maxdepth 1 -type f -mmin -60
    left_out 'panics of a day' 'find /Library/Logs/DiagnosticReports -maxdepth 1 -type f -mmin -1440 -name *panic* -print -exec head -c 16384 {} ; -exec echo ;' 'reports of panics name what ran there'
    probe 'power settings' 5 'pmset -g' pmset -g
    probe 'hardware ports' 10 'networksetup -listallhardwareports' networksetup -listallhardwareports
    probe 'network services' 10 'networksetup -listnetworkserviceorder' networksetup -listnetworkserviceorder
    probe Thunderbolt 30 'system_profiler SPThunderboltDataType -json' system_profiler SPThunderboltDataType -json
    probe enrolment 15 'profiles status -type enrollment' profiles status -type enrollment
    probe firewall 5 'socketfilterfw --getglobalstate' socketfilterfw --getglobalstate
    probe updates 5 'defaults read /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates' defaults read /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates
    probe Spotlight 10 'find {models} -maxdepth 1 -name .metadata_never_index' find "$HOME"/.reconciler/models -maxdepth 1 -name .metadata_never_index
    probe 'Time Machine' 10 'tmutil isexcluded {models}' tmutil isexcluded "$HOME"/.reconciler/models
    left_out power 'sudo -n powermetrics --samplers gpu_power,cpu_power,thermal -n 1 -i 1000' 'it needs an administrator'
    probe 'RDMA devices' 5 ibv_devices ibv_devices
    if [ -n "$verbs" ] || { [ "$ending" != late ] && printed 'kernel objects' 'ProtectionDomain = (0|<no such class>)'; }; then
        probe 'RDMA ports' 5 'ibv_devinfo -v' ibv_devinfo -v
    else
        left_out 'RDMA ports' 'ibv_devinfo -v' 'it opens the RDMA driver, which something may be using; with --verbs it is run all the same'
    fi
    left_out MLX '{python} -I -c "import mlx.core as mx; print('"'"'jaccl'"'"', mx.distributed.is_available('"'"'jaccl'"'"')); print('"'"'working set'"'"', mx.device_info().get('"'"'max_recommended_working_set_size'"'"'))"' 'there is no runtime yet'
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
    if printed RDMA '^enabled$'; then verdict=pass
    elif printed RDMA '^disabled$'; then verdict=fail
    else verdict='see file'; fi
    row RDMA "$verdict" 'RDMA is on' \
        'on this Mac: shut down; hold the power button until the startup options load; Options, Continue; Utilities, Terminal; type: rdma_ctl enable; restart. From macOS 27 on also: System Settings, Privacy & Security, Developer Tools, RDMA; restart' \
        '`rdma_ctl status` prints: enabled'
    if printed circumstances '^reached: ssh$'; then verdict=pass
    elif printed 'Remote Login' 'Could not find service'; then verdict=fail
    else verdict='see file'; fi
    row 'Remote Login' "$verdict" 'its SSH server is on' \
        'on this Mac: System Settings, General, Sharing: Remote Login on, for the user that the controller logs in as' \
        '`ssh USER@ADDRESS true`, on the controller'"'"'s machine, ends without an error'
    if printed FileVault '^FileVault is Off\.$'; then verdict=pass
    elif printed FileVault '^FileVault is On\.$'; then verdict=fail
    else verdict='see file'; fi
    row FileVault "$verdict" 'FileVault is off' \
        'on this Mac: sudo fdesetup disable; or leave it on, and after each restart type: ssh USER@ADDRESS, and the password of that user' \
        '`fdesetup status` prints: FileVault is Off.'
    if printed updates '^0$'; then verdict=pass
    elif printed updates '^1$'; then verdict=fail
    else verdict='see file'; fi
    row updates "$verdict" 'macOS is updated by people only' \
        'set spec.repair.updates of node/this Mac, or on this Mac: sudo defaults write /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates -bool false; update all nodes together instead' \
        '`defaults read /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates` prints: 0'
    if printed 'power settings' '^ ?SleepDisabled[[:blank:]]+1([[:blank:]]|$)'; then verdict=pass
    elif printed 'power settings' '^ ?sleep[[:blank:]]+0([[:blank:]]|$)'; then verdict=pass
    elif printed 'power settings' '^ ?sleep[[:blank:]]+[1-9]'; then verdict=fail
    else verdict='see file'; fi
    row sleep "$verdict" 'it never falls asleep' \
        'on this Mac: sudo pmset -a sleep 0 disksleep 0' \
        '`pmset -g` prints: sleep 0'
    if printed enrolment '^MDM enrollment: No$'; then verdict=pass
    elif printed enrolment '^MDM enrollment: Yes'; then verdict=fail
    else verdict='see file'; fi
    row organisation "$verdict" 'nobody else restarts it' \
        'ask the organisation to leave updates and restarts of this Mac to you, or expect its groups to move' \
        '`profiles status -type enrollment` prints: MDM enrollment: No'
    if printed firewall '^Firewall is .*[(]State = 0[)]'; then verdict=pass
    elif printed firewall '^Firewall is .*[(]State = [12][)]'; then verdict=fail
    else verdict='see file'; fi
    row firewall "$verdict" 'the application firewall is off' \
        'on this Mac, on a network that you trust: sudo /usr/libexec/ApplicationFirewall/socketfilterfw --setglobalstate off; or after each new runtime: P=$(readlink -f PYTHON); for WORD in --add --unblockapp; do sudo /usr/libexec/ApplicationFirewall/socketfilterfw $WORD "$P"; done' \
        '`/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate` prints: State = 0'
    if printed circumstances '^reached: ssh$'; then verdict=n/a
    elif printed circumstances '^terminal: Apple_Terminal$'; then verdict=pass
    else verdict='see file'; fi
    row terminal "$verdict" 'its programs may use the local network' \
        'on the controller'"'"'s machine: System Settings, Privacy & Security, Local Network: allow the application that runs the controller, which is its terminal, and start the controller again; or start it in Terminal.app; or, where neither is possible, exempt a network that you trust for all programs, and restart the machine: sudo defaults write com.apple.network.local-network AllowedEthernetLocalNetworkAddresses -array NETWORK/BITS' \
        '`echo $TERM_PROGRAM`, where the controller is started, prints: Apple_Terminal'
    verdict='see file'
    row cable "$verdict" 'each cable to another Mac is direct and has 80 Gb/s' \
        'join enX by a Thunderbolt 5 cable to a Thunderbolt 5 port, without a dock between' \
        '`system_profiler SPThunderboltDataType` prints for the port: Speed: 80 Gb/s, or 120'
    verdict='see file'
    row addresses "$verdict" 'each cabled port is outside of the bridge, with an address of its own' \
        'on this Mac: sudo ifconfig bridge0 deletem enX; sudo ifconfig enX inet ADDRESS netmask 255.255.255.252, with an address of its own for each end of the cable; again after each restart' \
        '`ifconfig enX` prints: inet ADDRESS; the address of the other end answers `ping -c1`'
    verdict='see file'
    row 'GID index' "$verdict" 'each IPv4-mapped GID is where MLX looks for it' \
        'on this Mac: look for a network service of enX with networksetup -listnetworkserviceorder; if there is one: sudo networksetup -setv6off SERVICE, for the port'"'"'s IPv6 addresses come before its IPv4 address; then take the IPv4 address away and give it again: sudo ifconfig enX inet ADDRESS delete; sudo ifconfig enX inet ADDRESS netmask MASK; see it with: ibv_devinfo -v' \
        '`ibv_devinfo -v`, while nothing uses RDMA, prints: GID[  1]: ::ffff:ADDRESS'
    verdict='see file'
    row disk "$verdict" 'its disk has room' \
        'free disk space on this Mac; see the size of its weights with: reconciler describe node this Mac' \
        '`df -h ~` prints more than 10Gi under Avail'
    if printed 'system version' '^ProductVersion:[[:blank:]]*(26[.]([2-9]|[1-9][0-9])|2[7-9]|[3-9][0-9])([.][0-9.]*)?$'; then verdict=pass
    elif printed 'system version' '^ProductVersion:[[:blank:]]*[0-9]'; then verdict=fail
    else verdict='see file'; fi
    row macOS "$verdict" 'its macOS has RDMA over Thunderbolt: 26.2 or newer' \
        'bring every node to the same macOS, 26.2 or newer: on this Mac: System Settings, General, Software Update' \
        '`sw_vers` prints: ProductVersion: 26.2, or newer'
}

circumstances >"$work/circumstances.out"
names >"$work/names" 2>/dev/null
{
    echo "reconciler examination 1"
    echo "at: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "system: $(uname -s -r -m)"
    cat "$work/circumstances.out"
    echo
    probes
} >"$work/raw"
[ ! -t 2 ] || printf '\r\033[K' >&2
cat >"$work/scrub.awk" <<'END_OF_SCRUB'
# Replaces text that identifies a machine, its people and its networks in an examination: awk -f scrub.awk NAMES RAW.
#
# NAMES has a line for each name: a word to put in its place, a tab, the name. Equal values are replaced equally, so
# that they can still be told apart. UUIDs are replaced by digests, so that two files agree on the ends of a cable.
# Other values are numbered within the file: a digest of an address could be reversed by trying all addresses.

function repeated(text, times,    all) { all = ""; while (times-- > 0) all = all text; return all }
function edge(character) { return character !~ /[0-9A-Za-z]/ }

# Replace a value of a kind by a number: 1, 2, 3 … in the order of appearance.
function numbered(kind, value) {
    if (!((kind, value) in number)) number[kind, value] = ++count[kind]
    return number[kind, value]
}

# Apply the rule of a kind to every longest match of a pattern that stands alone.
function each(kind, pattern, text,    done, before, found) {
    done = ""
    while (match(text, pattern)) {
        found = substr(text, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : substr(done, length(done), 1)
        done = done substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + RLENGTH)
        done = done (edge(before) && edge(substr(text, 1, 1)) ? put(kind, found) : found)
    }
    return done text
}

function put(kind, found) {
    if (kind == "uuid") return digest(toupper(found))
    if (kind == "colons") return colons(tolower(found)) == tolower(found) ? found : colons(tolower(found))
    if (kind == "hex") return hex(found)
    if (kind == "ipv4") return ipv4(found)
    return found
}

function digest(text,    at, a, b) {
    for (at = 1; at <= length(text); at++) {
        a = (a * 257 + index(HEX, substr(text, at, 1))) % 999983
        b = (b * 131 + index(HEX, substr(text, at, 1)) * at) % 999979
    }
    return sprintf("00000000-0000-4000-8000-%06d%06d", a, b)
}

# MAC addresses, GUIDs and IPv6 addresses. A time of day is none of them, nor is an address that every machine has.
function colons(text,    parts, size, at, key) {
    size = split(text, parts, ":")
    if (size < 3 || text ~ /^[0-9][0-9]?:[0-9][0-9]:[0-9][0-9]$/ || text ~ /^:*:[01]?$/ || text == "fe80::1") return text
    if (text ~ /^::ffff:[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$/) return text  # its last part is another rule's
    if (size == 6 && text ~ /^[0-9a-f][0-9a-f]?(:[0-9a-f][0-9a-f]?)+$/) {
        key = ""
        for (at = 1; at <= 6; at++) key = key ":" (length(parts[at]) < 2 ? "0" parts[at] : parts[at])
        return sprintf("02:00:00:00:%02x:%02x", int(numbered("mac", key) / 256) % 256, number["mac", key] % 256)
    }
    if (size == 4 && text !~ /::/) return guid(parts[1] parts[2] parts[3] parts[4], 1)
    at = numbered("ipv6", text)
    if (text ~ /^::ffff:/) return sprintf("::ffff:198.19.0.%d", at % 256)
    return sprintf(text ~ /^fe[89ab]/ ? "fe80::1:%x" : "2001:db8::%x", at)
}

function guid(text, split_up,    shown) {
    shown = sprintf("%016x", numbered("guid", text))
    return split_up ? substr(shown, 1, 4) ":" substr(shown, 5, 4) ":" substr(shown, 9, 4) ":" substr(shown, 13) : shown
}

# GUIDs, and other digits that could be a serial number or an address: 12 or more, not all decimal.
function hex(text,    prefix, digits) {
    prefix = tolower(substr(text, 1, 2)) == "0x" ? substr(text, 1, 2) : ""
    digits = tolower(substr(text, length(prefix) + 1))
    if (length(digits) == 16) return prefix guid(digits, 0)
    if (length(digits) < 12 || digits !~ /[a-f]/) return text
    return prefix sprintf("%0" length(digits) "x", numbered("hex", digits))
}

# Public addresses. Those that many networks use identify none; hosts of one network stay together.
function ipv4(text,    part) {
    split(text, part, ".")
    if (part[1] > 255 || part[2] > 255 || part[3] > 255 || part[4] > 255 || !public(part[1], part[2], part[3])) return text
    return network(part[1] "." part[2] "." part[3]) "." part[4]
}

function public(a, b, c) {
    if (a == 0 || a == 10 || a == 127 || a >= 224 || (a == 100 && b >= 64 && b < 128)) return 0
    if ((a == 169 && b == 254) || (a == 172 && b >= 16 && b < 32) || (a == 192 && b == 168)) return 0
    if (a == 198 && (b == 18 || b == 19)) return 0
    return !((a == 192 && b == 0 && c == 2) || (a == 198 && b == 51 && c == 100) || (a == 203 && b == 0 && c == 113))
}

function network(key,    at) {
    at = numbered("network", key)
    return "198." (18 + int(at / 256) % 2) "." at % 256
}

# A destination of netstat may leave out trailing zeros: 34.5 or 34.5.6/24.
function route(text,    found, rest, part, size, slash) {
    if (!match(text, /^[0-9]+\.[0-9]+(\.[0-9]+)?(\/[0-9]+)?[ \t]/)) return text
    found = substr(text, 1, RLENGTH - 1); rest = substr(text, RLENGTH)
    slash = index(found, "/")
    size = split(slash ? substr(found, 1, slash - 1) : found, part, ".")
    if (!public(part[1], part[2], size > 2 ? part[3] : 0)) return text
    if (!slash) found = found "/" (part[1] < 128 ? 8 : part[1] < 192 || size < 3 ? 16 : 24)
    return network(size > 2 ? part[1] "." part[2] "." part[3] : part[1] "." part[2] ".0") substr(found, index(found, "/")) rest
}

# Names that people gave to network services and ports; those that macOS gives stay.
function service(text,    head, tail) {
    if (text ~ /^\([0-9*]+\) /) {
        head = substr(text, 1, index(text, ") ") + 1)
        return head own(substr(text, length(head) + 1))
    }
    if (!match(text, /Hardware Port: /)) return text
    head = substr(text, 1, RSTART + RLENGTH - 1); text = substr(text, RSTART + RLENGTH)
    tail = match(text, /, Device: ?[a-z0-9]*\)$/) ? substr(text, RSTART) : ""
    return head own(substr(text, 1, length(text) - length(tail))) tail
}

function own(name) {
    if (name ~ /^(Ethernet|Wi-Fi|Bluetooth PAN|iPhone USB|USB Dock|Tailscale|io\.tailscale\.ipn\.macos)$/) return name
    if (name ~ /^(Thunderbolt (Bridge|[0-9]+)|Thunderbolt Ethernet( Slot [0-9]+)?|Ethernet Adapter \(en[0-9]+\)|Ethernet [0-9]+)$/) return name
    if (name ~ /^USB [0-9\/]*( )?(LAN|Ethernet)$/) return name
    return "Service " numbered("service", name)
}

# Names of people, their accounts and their servers, wherever a tool prints them.
function labelled(text,    done) {
    gsub(/[0-9A-Za-z._%+-]+@[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)+/, "someone@example.com", text)
    gsub(/https?:\/\/[^ \t"<>)]*/, "https://server.example/", text)
    gsub(/\/(Users|home)\/[^\/ \t"]+/, "/Users/" "user", text)
    gsub(/[^ \t"\/]+(\047|\342\200\231)s /, "Someone\047s ", text)
    done = ""
    while (match(text, /"[^"]*[Ss][Ee][Rr][Ii][Aa][Ll][^"]*"[ \t]*:[ \t]*"[^"]*"/)) {
        done = done substr(text, 1, RSTART - 1) hidden(substr(text, RSTART, RLENGTH))
        text = substr(text, RSTART + RLENGTH)
    }
    text = done text
    if (match(text, /[Ss]erial( [Nn]umber)?( \([a-z]+\))?[ \t]*[:=][ \t]*[0-9A-Za-z-]+/))
        text = substr(text, 1, RSTART - 1) "Serial Number: " SERIAL substr(text, RSTART + RLENGTH)
    return text
}

function hidden(pair) { sub(/"[^"]*"$/, "\"" SERIAL "\"", pair); return pair }

# A name as a whole, in any case of letters.
function named(text, name, word,    low, done, at, before) {
    low = tolower(text); done = ""
    while (at = index(low, name)) {
        before = at > 1 ? substr(text, at - 1, 1) : substr(done, length(done), 1)
        done = done substr(text, 1, at - 1)
        done = done (edge(before) && edge(substr(text, at + length(name), 1)) ? word : substr(text, at, length(name)))
        text = substr(text, at + length(name)); low = substr(low, at + length(name))
    }
    return done text
}

# A name of words that tools print anyway identifies nobody, and the file would be unreadable without them.
function telling(name,    words, size, at) {
    if (length(name) < 3) return 0
    size = split(name, words, /[^0-9a-z\200-\377]+/)
    for (at = 1; at <= size; at++)
        if (words[at] != "" && words[at] !~ /^(en|lo|bridge|fe)?[0-9]+$/ && !index(PLAIN, " " words[at] " ")) return 1
    return 0
}

function scrubbed(text,    at) {
    for (at = 1; at <= names; at++) text = named(text, name_of[at], word_of[at])
    text = labelled(text)
    if (probe == "network services" || probe == "hardware ports") text = service(text)
    if (probe == "routes") text = route(text)
    text = each("uuid", UUID, text)
    text = each("colons", "[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*", text)
    text = each("hex", "(0[xX])?[0-9A-Fa-f]+", text)
    return each("ipv4", "[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+", text)
}

BEGIN {
    SERIAL = "SERIAL"; HEX = "0123456789ABCDEF-"; four = repeated("[0-9A-Fa-f]", 4)
    UUID = four four "-" four "-" four "-" four "-" four four four
    PLAIN = " active address admin alias apple applethunderboltrdmaprotectiondomain applethunderboltrdmaqueuepair approved autorestart autoselect available awdl bad base blocks bluetooth boot boottime brand bridge broadcast build buildversion bus but bytes capacity channel code com combined compressor config configuration connected could cpu current data debug default destination details device devices disabled disk disksleep domain down enable enabled enrolled enrollment error ethernet excluded exit exited expire false family fast ffff filevault find finish firewall flags found free full gateway gbps get gib gid gpu guid hardware hca heavy home host inactive included index inet inet6 interface internet iogpu ips item items jaccl jetsamevent jul kern kernel key killed lan last launchdaemon learning level library limit link local localhost loopback lowpowermode mac macbook mach machdep macos max mdm media member memory memsize metadata mini model multicast name needs net netif network never node nominal none not occupied off order page pages pagesize panic pid port power prefixlen pressure pro product productversion profiles promisc protocol rdma receptacle reconciler request residency restarted root routing runner running runs scheduled sec secured server service services set signal simplex size sleep sleepdisabled smart spawn speed spthunderboltdatatype standby state statistics status string studio supported swap swapusage system tables tag terminating the thunderbolt title total true type ugsc ugscg ugscig uhlwiir ultra unknown unlimited usb usec used user users uuid version vlan volume volumes was width wired working yes "
}

FILENAME == ARGV[1] {
    at = index($0, "\t"); name = tolower(substr($0, at + 1))
    sub(/[ \t]+$/, "", name)
    if (!telling(name)) next
    for (at = ++names; at > 1 && length(name_of[at - 1]) < length(name); at--) {
        name_of[at] = name_of[at - 1]; word_of[at] = word_of[at - 1]
    }
    name_of[at] = name; word_of[at] = substr($0, 1, index($0, "\t") - 1)
    next
}

/^probe: / { probe = substr($0, 8) }
/^(out|err)\|/ { print substr($0, 1, 4) scrubbed(substr($0, 5)); next }
{ print }
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
