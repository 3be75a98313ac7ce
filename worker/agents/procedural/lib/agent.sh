# Functions of the example agents. Source it after setting name= to the agent's name.
# Parameters are flags: --key value, --key=value (values that begin with '-'), --key (true).
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

root=$(pwd -P && echo .) # the project folder, which the agent is started in
root=${root%??}

# within PATH: sets $safe to PATH's real name, which no program takes for a flag or for stdin. The agent ends where that is not in the
# project folder: links are followed first, so that none leads out.
within() {
	command -v realpath >/dev/null || fail 1 "there is no program realpath; install coreutils"
	real=$(realpath -- "$1" 2>/dev/null && echo .) || case /$1/ in
	//* | */../*) ;; # whether something is there is not told of what lies outside
	*) fail 2 "$1: is not there" ;;
	esac
	safe=${real%??}
	case $safe in
	"$root" | "${root%/}"/*) ;;
	*) fail 2 "$1: is not in the project folder" ;;
	esac
}

# readable FILE: within, and the agent ends unless it is a file that can be read.
readable() {
	within "$1"
	[ -e "$safe" ] || fail 2 "$1: there is no such file"
	[ -d "$safe" ] && fail 2 "$1: is a directory, a file is needed"
	[ -r "$safe" ] || fail 2 "$1: may not be read"
}

# folder PATH: within, and the agent goes on in it.
folder() {
	within "$1"
	[ -e "$safe" ] || fail 2 "$1: there is no such folder"
	[ -d "$safe" ] || fail 2 "$1: is not a folder"
	case $here in /*) ;; *) here=$(pwd)/$here lib=$(pwd)/$lib ;; esac
	cd -P -- "$safe" || fail 2 "$1: may not be entered"
}

number() { # number KEY VALUE: VALUE is a whole number
	case $2 in
	'' | *[!0-9]*) fail 2 "$1 must be a whole number, got '$2'" ;;
	esac
}
