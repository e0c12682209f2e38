#!/usr/bin/env bash
# Installs the system's packages that building and running nnvk takes, where they are missing.
#
#   bash scripts/packages.sh            what is needed to build and use nnvk
#   bash scripts/packages.sh WHAT...    and what the table below has under "on request"
#
# apt installs them, as root or with sudo without a password. Elsewhere the script names the missing ones, by the names
# that the system has for them (it is looked up in /etc/os-release, or in the file OS_RELEASE), and ends with 1. PYTHON
# picks the interpreter (python3).
set -euo pipefail
python=${PYTHON:-python3}
os_release=${OS_RELEASE:-/etc/os-release}

# What is needed, and the package that brings it. For "-" no package is known to do.
#                     Debian, Ubuntu          Fedora, RHEL             Arch                     openSUSE
needed="
python                python3                 python3                  python                   python3
venv                  python3-venv            python3                  python                   python3
Python.h              python3-dev             python3-devel            python                   python3-devel
g++                   g++                     gcc-c++                  gcc                      gcc-c++
cmake                 cmake                   cmake                    cmake                    cmake
ninja                 ninja-build             ninja-build              ninja                    ninja
vulkan.hpp            libvulkan-dev           vulkan-headers           vulkan-headers           vulkan-headers
libvulkan.so.1        libvulkan1              vulkan-loader            vulkan-icd-loader        libvulkan1
vulkan-driver         mesa-vulkan-drivers     mesa-vulkan-drivers      vulkan-swrast            libvulkan_lvp
"
on_request="
glslangValidator      glslang-tools           glslang                  glslang                  glslang-devel
validation-layer      vulkan-validationlayers vulkan-validation-layers vulkan-validation-layers vulkan-validationlayers
chromium              chromium                chromium                 chromium                 chromium
aarch64-linux-gnu-g++ g++-aarch64-linux-gnu   -                        -                        -
x86_64-linux-gnu-g++  g++-x86-64-linux-gnu    -                        -                        -
"

for what in "$@"; do
    row=""
    while read -r name rest; do [ "$name" != "$what" ] || row="$name $rest"; done <<<"$on_request"
    [ -n "$row" ] || { echo "$0: nothing is called $what" >&2; exit 2; }
    needed+="$row"$'\n'
done

has() {
    case $1 in
        python) has "$python" ;;
        venv) "$python" -c 'import ensurepip, venv' ;;
        Python.h) "$python" -c 'import os, sysconfig; open(os.path.join(sysconfig.get_path("include"), "Python.h"))' ;;
        vulkan.hpp) echo '#include <vulkan/vulkan.hpp>' | g++ -E -x c++ - ;;
        libvulkan.so.1) "$python" -c 'import ctypes; ctypes.CDLL("libvulkan.so.1")' ;;
        vulkan-driver) compgen -G "/usr/share/vulkan/icd.d/*.json" || compgen -G "/etc/vulkan/icd.d/*.json" ;;
        validation-layer) [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# Sets `missing` to the names in one of the table's columns: debian, fedora, arch or suse.
find_missing() {
    missing=()
    local what debian fedora arch suse name
    while read -r what debian fedora arch suse; do
        [ -n "$what" ] && ! has "$what" </dev/null || continue
        name=${!1}
        [ "$name" != - ] || name="$debian (Debian's name)"
        [[ " ${missing[*]-} " == *" $name "* ]] || missing+=("$name")
    done <<<"$needed"
}

# Sets `system` to what this one calls itself and `family` to the table's column for it, or to nothing.
find_family() {
    local ID="" ID_LIKE="" PRETTY_NAME="" word
    [ ! -r "$os_release" ] || . "$os_release"
    system=${PRETTY_NAME:-${ID:-an unknown system}} family=""
    for word in $ID $ID_LIKE; do
        case $word in
            debian | ubuntu) family=debian ;;
            fedora | rhel | centos) family=fedora ;;
            arch) family=arch ;;
            suse | sles | opensuse*) family=suse ;;
        esac
        [ -z "$family" ] || break
    done
}

name_missing() {
    local command
    find_family
    find_missing "${family:-debian}"
    case $family in
        debian) command="apt install" ;;
        fedora) command="dnf install" ;;
        arch) command="pacman -S" ;;
        suse) command="zypper install" ;;
        *)
            echo "These packages are missing (Debian's names; those of $system are not known here): ${missing[*]}" >&2
            return
            ;;
    esac
    echo "These packages are missing, and installing them needs root:" >&2
    echo "    $command ${missing[*]}" >&2
}

find_missing debian
[ ${#missing[@]} -gt 0 ] || exit 0
run=()
if ! has apt-get; then
    name_missing
    exit 1
elif [ "$(id -u)" != 0 ]; then
    if ! has sudo || ! sudo -n true 2>/dev/null; then
        name_missing
        exit 1
    fi
    run=(sudo -n)
fi
echo "Installing ${missing[*]}"
"${run[@]}" apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
find_missing debian
if [ ${#missing[@]} -gt 0 ]; then
    echo "Still missing after the installation (is $python the system's Python?): ${missing[*]}" >&2
    exit 1
fi
