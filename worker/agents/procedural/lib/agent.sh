# What the example agents share. Sourced, after name= is set to the agent's name.
# Parameters come as flags: --key value, --key=value (values that begin with '-'), --key (true).
set -eu
LC_ALL=C
export LC_ALL
here=$(dirname "$0")
lib=$here/../lib

fail() { # fail CODE MESSAGE…
	code=$1
	shift
	printf '%s: %s\n' "$name" "$*" >&2
	exit "$code"
}

say() { printf '%s: %s\n' "$name" "$*" >&2; } # progress

# safe PATH: sets $safe to a name of PATH that no program takes for a flag, or for stdin.
safe() {
	case $1 in
	-*) safe=./$1 ;;
	*) safe=$1 ;;
	esac
}

# readable ends the agent unless its argument is a file that can be read.
readable() {
	[ -e "$1" ] || fail 2 "$1: there is no such file"
	[ -d "$1" ] && fail 2 "$1: is a directory, a file is needed"
	[ -r "$1" ] || fail 2 "$1: may not be read"
}

number() { # number KEY VALUE: VALUE is a whole number
	case $2 in
	'' | *[!0-9]*) fail 2 "$1 must be a whole number, got '$2'" ;;
	esac
}
