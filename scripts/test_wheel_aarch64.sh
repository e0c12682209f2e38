#!/usr/bin/env bash
# Runs a wheel for aarch64 on an x86_64 machine, as root on Debian: in an arm64 Debian under qemu, with arm64's Mesa.
#
#   bash scripts/test_wheel_aarch64.sh WHEEL [VECTORS [REGEX]]
#
# lists the devices, runs one of the demo's models on the Vulkan device, compares it with the CPU device, and runs the
# conformance vectors of the folder VECTORS whose names have REGEX in them. The wheel for Python 3.11 runs in Debian 12,
# the one for 3.12 and later in Debian 13; no Debian has Python 3.10. The system is made in build/aarch64 and stays there.
# MIRROR is where its packages come from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 1 ] && [ $# -le 3 ] || usage
for path in "$1" "${2:-$1}"; do [ -e "$path" ] || { echo "$0: no such file: $path" >&2; exit 2; }; done
wheel=$(realpath "$1") vectors=${2:+$(realpath "$2")} filter=${3:-.}
case ${wheel##*/} in
    nnvk-*-cp311-cp311-*aarch64.whl) suite=bookworm version=3.11 glibc=36 ;;
    nnvk-*-cp312-abi3-*aarch64.whl) suite=trixie version=3.13 glibc=41 ;;
    *) echo "$0: expected a wheel for aarch64 and Python 3.11, or 3.12 and later, got ${wheel##*/}" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "$0 needs root" >&2; exit 1; }
export PIP_DISABLE_PIP_VERSION_CHECK=1

# --- a Debian for arm64 -------------------------------------------------------------------------------------------------

if ! command -v debootstrap >/dev/null || ! [ -e /usr/lib/binfmt.d/qemu-aarch64.conf ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap qemu-user-static \
        >/dev/null
fi
# systemd registers qemu with the kernel, which then starts arm64's programs with it. Where there is no systemd, this
# script does, for as long as it runs.
binfmt=/proc/sys/fs/binfmt_misc work=$(mktemp -d)
cleanup() {
    [ ! -e "$work/registered" ] || echo -1 >$binfmt/qemu-aarch64
    rm -rf "$work"
}
trap cleanup EXIT
[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt
if ! [ -e $binfmt/qemu-aarch64 ]; then
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
    touch "$work/registered"
fi

root=$PWD/build/aarch64/$suite
if ! [ -d "$root" ]; then
    echo "Making Debian's $suite for arm64 in $root"
    rm -rf "$root.partial"
    mkdir -p "$root.partial"
    unshare -m debootstrap --arch=arm64 --variant=minbase --include=python3,mesa-vulkan-drivers "$suite" \
        "$root.partial" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
        { tail -5 "$root.log" "$root.partial/debootstrap/debootstrap.log" >&2; exit 1; }
    mv "$root.partial" "$root"
fi

# --- the wheel ----------------------------------------------------------------------------------------------------------

# This machine's pip installs it: tags and versions are aarch64's, and nothing is compiled.
"${PYTHON:-python3}" -m venv "$work/env"
platforms=(--platform manylinux2014_aarch64)
for minor in $(seq 17 $glibc); do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
rm -rf "$root/opt/nnvk"
"$work/env/bin/pip" install --quiet --target "$root/opt/nnvk" "${platforms[@]}" --implementation cp \
    --python-version "$version" --only-binary=:all: "$wheel"

run() { # in the system, in a mount namespace of its own
    unshare -m bash -c '
        root=$1; shift
        mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; mount -t tmpfs tmp "$root/tmp"
        if [ -n "$1" ]; then mkdir "$root/tmp/vectors"; mount --bind "$1" "$root/tmp/vectors"; fi
        shift
        exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp PYTHONPATH=/opt/nnvk "$@"
    ' run "$root" "$vectors" "$@"
}
nnvk() { run python3 -m nnvk.cli "$@"; }

demo=/opt/nnvk/nnvk/demo/data
[ "$(run uname -m)" = aarch64 ]
nnvk --version
nnvk devices | tee "$work/devices"
grep -q vulkan-0 "$work/devices"
echo "A model:"
nnvk run $demo/digits_int8.tflite --device vulkan-0 --input $demo/0007_label7.png --top 3
nnvk compare $demo/digits_int8.tflite --devices vulkan-0 nnapi-reference
if [ -n "$vectors" ]; then
    echo "Conformance vectors:"
    nnvk conformance /tmp/vectors --device vulkan-0 --filter "$filter" --jobs 0
fi
