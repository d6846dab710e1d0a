#!/bin/sh
# Prints the path of the Python that .venv is to be made from: $PYTHON if it is set, otherwise the
# newest supported one on PATH or under pyenv that really runs. A name on PATH proves nothing: pyenv
# leaves shims for versions that are not selected, and Debian splits venv off into its own package.
set -u

supported_minors="13 12 11"

how_to_get_one() {
    cat >&2 <<'END'

Any of these brings one:
  Debian, Ubuntu   sudo apt-get install python3 python3-venv
  macOS            brew install python@3.13
  pyenv            pyenv install 3.13
  uv               uv python install 3.13, then: make PYTHON="$(uv python find 3.13)" ...

If yours is somewhere else, name it: make PYTHON=/path/to/python3 ...
END
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null
}

# The interpreter itself, also where the name is a shim or lies in somebody's virtual environment.
# Fails where a virtual environment cannot be made.
usable_path_of() {
    "$1" -I -c '
import sys, ssl, venv, ensurepip
print(getattr(sys, "_base_executable", None) or sys.executable)' 2>/dev/null </dev/null
}

is_supported() {
    for minor in $supported_minors; do
        [ "$1" = "3.$minor" ] && return 0
    done
    return 1
}

# Every executable of that name on PATH, first first: a broken shim may hide a working one.
on_path() {
    old_ifs=$IFS
    IFS=:
    set -f
    for directory in $PATH; do
        [ -x "${directory:-.}/$1" ] && [ ! -d "${directory:-.}/$1" ] && echo "${directory:-.}/$1"
    done
    set +f
    IFS=$old_ifs
}

under_pyenv() {
    command -v pyenv >/dev/null 2>&1 || [ -d "${PYENV_ROOT:-${HOME:-}/.pyenv}" ] || return 0
    prefix=$(pyenv prefix "$1" 2>/dev/null) && echo "$prefix/bin/python"
    for directory in "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$1".*; do
        [ -x "$directory/bin/python" ] && echo "$directory/bin/python"
    done
}

candidates() {
    on_path "python3.$1"
    under_pyenv "3.$1"
    on_path python3
    on_path python
}

# A version, or the plain name that carries one, is looked for in the same places as without PYTHON.
use_the_one_named() {
    case $1 in
    3.1[123]) use_the_newest "${1#3.}"; return ;;
    python3.1[123]) use_the_newest "${1#python3.}"; return ;;
    esac
    if ! version=$(version_of "$1"); then
        echo "PYTHON=$1 does not run. Is the path right?" >&2
    elif ! is_supported "$version"; then
        echo "PYTHON=$1 is Python $version. Chargeonce supports 3.11, 3.12 and 3.13." >&2
    elif ! usable_path_of "$1"; then
        echo "PYTHON=$1 (Python $version) lacks one of the modules ssl, venv and ensurepip." >&2
        echo "On Debian and Ubuntu: sudo apt-get install python3-venv" >&2
    else
        return 0
    fi
    how_to_get_one
    return 1
}

# Of the minor versions given, newest first.
use_the_newest() {
    for minor in "$@"; do
        found=$(candidates "$minor" | while IFS= read -r candidate; do
            [ "$(version_of "$candidate")" = "3.$minor" ] && usable_path_of "$candidate" && break
        done)
        [ -n "$found" ] && echo "$found" && return 0
    done
    echo "No Python was found that runs and can make a virtual environment (modules ssl, venv and" >&2
    echo "ensurepip). Looked for:$(printf ' 3.%s' "$@"), on PATH and under pyenv." >&2
    how_to_get_one
    return 1
}

if [ -n "${PYTHON:-}" ]; then
    use_the_one_named "$PYTHON"
else
    # shellcheck disable=SC2086 # a list of words
    use_the_newest $supported_minors
fi
