#!/usr/bin/env bash
# Tests nnvk on another Debian: in a system that debootstrap makes from the mirror of this machine's own packages.
#
#   bash scripts/test_on.sh SYSTEM            the second command of the README. SYSTEM is a name of Debian's, such as bookworm,
#                                             trixie or sid
#   bash scripts/test_on.sh SYSTEM WHEEL      a wheel of the stable ABI on SYSTEM's Vulkan driver: 300 conformance vectors, of
#                                             all operations, the models, the fusions, cooperative matrices, the
#                                             assumptions of shaders
#
# It needs root, and Debian here. The system stays in nnvk/systems/SYSTEM in the user's cache folder (1.5 GB; 0.6 GB for
# a wheel), and the next run only brings its packages up to date. The tests run in a copy of the source tree, which goes
# when they end, in namespaces of their own, which take all mounts and processes with them. The vectors and models come
# from ../shared, as for scripts/test.sh.
#
# Ends with 3, and one line that says why, where SYSTEM can't be made or brought up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '4,8s/^# *//p' "$0" >&2; exit 2; }
{ [ $# = 1 ] || { [ $# = 2 ] && [ -f "$2" ]; }; } && [[ $1 =~ ^[a-z]+$ ]] || usage
system=$1 wheel=${2:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nnvk/systems
root=$cache/$system

unable() { echo "Not tested on Debian $system: $1" >&2; exit 3; }

# --- what ends with the script ------------------------------------------------------------------------------------------

work="" child=""
clean_up() {
    trap '' INT TERM HUP
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || true
    [ -z "$work" ] || rm -rf --one-file-system "$work" "$root.partial" "$root"/srv/nnvk-*
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command for so many minutes at most. A signal ends it at once: bash handles none while a command is in front.
limited() {
    timeout --kill-after 10 "$1m" "${@:2}" <&0 &
    child=$!
    local code=0
    wait "$child" || code=$?
    child=""
    return "$code"
}

# --- the system ---------------------------------------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || unable "that takes root"
[ ! -e /etc/debian_chroot ] || unable "this is such a system itself"
unshare --mount --pid --fork mount -t tmpfs nnvk /mnt 2>/dev/null || unable "namespaces and mounts are not allowed here"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Label: Debian' 2>/dev/null |
    head -n 1)
[ -n "$mirror" ] || unable "apt knows no mirror of Debian"
if ! command -v debootstrap >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } \
        >/dev/null 2>&1 || unable "debootstrap can't be installed"
fi

mkdir -p "$cache"
exec 9>"$root.lock"
flock --timeout 1800 9 || unable "another run has it"
work=$(mktemp -d)
if ! [ -d "$root" ]; then
    echo "Making Debian $system in $root"
    rm -rf --one-file-system "$root.partial"
    # debootstrap mounts what it needs: in a namespace of its own.
    limited 15 unshare --mount debootstrap --variant=minbase --include=ca-certificates "$system" "$root.partial" \
        "$mirror" >"$work/log" 2>&1 || unable "debootstrap failed: $(tail -n 1 "$work/log")"
    {
        # Mirrors that keep the packages of one day sign them for a week.
        echo 'Acquire::Check-Valid-Until "false";'
        echo 'APT::Keep-Downloaded-Packages "false";'
        apt-config dump | grep -iE '^Acquire::https?::Proxy ' || true
    } >"$root.partial/etc/apt/apt.conf.d/99nnvk"
    echo force-unsafe-io >"$root.partial/etc/dpkg/dpkg.cfg.d/nnvk"
    echo "$system" >"$root.partial/etc/debian_chroot"
    rm -f "$root.partial"/var/cache/apt/archives/*.deb
    mv "$root.partial" "$root"
fi
rm -rf --one-file-system "$root"/srv/nnvk-* # of a run that was killed

work_there=$(mktemp -d "$root/srv/nnvk-XXXXXX")
place=${work_there#"$root"}
mkdir "$work_there"/{nnvk,shared,tmp}
chmod 755 "$work_there"
chmod 1777 "$work_there/tmp"
# 1: a file or folder has changed meanwhile, such as by tests that run here.
{
    tar -c --warning no-file-changed --exclude ./.git --exclude-from <(sed 's#^/#./#; s#/$##' .gitignore) . || [ $? = 1 ]
} | tar -x -C "$work_there/nnvk"

# pip and the certificates are set up there as they are here. A variable goes before what pip's files say.
variables=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
mapfile -t -O ${#variables[@]} variables < <("${PYTHON:-python3}" -m pip config list 2>/dev/null |
    sed -nE "s/^(global|install)\.([a-z-]+)='(.*)'$/\2=\3/p" |
    awk -F = -v OFS='=' '{ $1 = "PIP_" toupper($1); gsub("-", "_", $1) } 1')
for name in $(compgen -e); do
    case $name in
        NNVK_CACHE_DIR | NNVK_SERVER) ;; # these are here
        CI | TERM | NNVK_* | PIP_* | *_proxy | *_PROXY | SSL_CERT_* | REQUESTS_CA_BUNDLE) variables+=("$name=${!name}") ;;
    esac
done
# Files and folders of this machine that they name. An index in files has them beside its pages.
readable=()
for path in $(printf '%s\n' "${variables[@]}" | sed -nE 's/^(PIP|SSL|REQUESTS)_[A-Z_]+=//p'); do
    case $path in
        file:///*/simple | file:///*/simple/) path=$(dirname "${path#file://}") ;;
        file:///*) path=${path#file://} ;;
        /etc/ssl/* | [!/]*) continue ;;
    esac
    [ ! -e "$path" ] || readable+=("$path")
done

mount_readable() {
    if [ -d "$1" ]; then
        mkdir -p "$2"
    else
        mkdir -p "$(dirname "$2")"
        : >>"$2"
    fi
    mount --bind "$1" "$2"
    mount -o remount,bind,ro "$2"
}

mount_and_enter() {
    set -euo pipefail
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount --bind "$root$place/tmp" "$root/tmp"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc"
    # A copy of the certificates: the system's packages write to them.
    mount -t tmpfs certificates "$root/etc/ssl/certs"
    cp -rL /etc/ssl/certs/. "$root/etc/ssl/certs" 2>/dev/null || true
    local path
    for path in "${readable[@]}"; do mount_readable "$path" "$root$path"; done
    if [ -d ../shared ]; then mount_readable ../shared "$root$place/shared"; fi
    exec chroot "$root" /usr/bin/env -i -C "$place/nnvk" "${variables[@]}" "$@"
}

# Runs a command in the system's copy of the tree, for so many minutes at most.
inside() {
    limited "$1" unshare --mount --pid --fork --kill-child bash -c "$(declare -p root place variables readable)
        $(declare -f mount_readable mount_and_enter)
        mount_and_enter \"\$@\"" bash "${@:2}"
}

packages=(python3 python3-venv)
[ -z "$wheel" ] || packages+=(glslang-tools libvulkan1 mesa-vulkan-drivers)
echo "Bringing Debian $system up to date"
inside 15 bash -c 'set -e
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get dist-upgrade -y -qq --no-install-recommends
    apt-get install -y -qq --no-install-recommends "$@"' bash "${packages[@]}" >"$work/log" 2>&1 ||
    unable "apt-get failed: $(tail -n 1 "$work/log")"

# --- the tests ----------------------------------------------------------------------------------------------------------

if [ -z "$wheel" ]; then
    inside 30 bash scripts/test.sh
    exit
fi

mkdir "$work_there/wheel"
cp "$wheel" "$work_there/wheel"
[ -d ../shared ] || echo "Neither vectors nor models are tested: there is no $(realpath ..)/shared"
inside 30 bash -c 'set -e
    python3 -m venv .venv
    .venv/bin/pip install -qq -c scripts/constraints.txt ../wheel/nnvk-*.whl pytest pytest-timeout pytest-xdist
    devices=$(.venv/bin/nnvk devices)
    echo "$devices"
    grep -q vulkan-0 <<<"$devices"
    # Of what the newest driver compiles, which no cache has: rewritten modules against the plain ones and cooperative matrices
    # by a sixth of the tests, without the optimisations of LLVM, each operation, and of types, sizes and ends of products
    # each with a third of the others. No driver reads what test_manifest.py does.
    GALLIVM_PERF=nopt .venv/bin/pytest -n 2 --dist worksteal -q --in-turn --one-in 6 tests/shaders/test_unroll.py \
        tests/driver/vulkan/lowering/gemm/test_cooperative_matrix.py
    .venv/bin/pytest -n 2 --dist worksteal -q --sample 300 --in-turn -k "not nnapi-reference" \
        tests/conformance/test_suite.py::test_vectors tests/importers/test_tflite_models.py tests/shaders \
        --deselect tests/shaders/test_unroll.py --deselect tests/shaders/test_manifest.py \
        tests/driver/vulkan/{test_assumptions,test_fusions}.py'
