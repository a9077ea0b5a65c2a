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
    PLAIN = " @PLAIN@ "
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
