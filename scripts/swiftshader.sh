#!/usr/bin/env bash
# A second Vulkan implementation to test on, beside Mesa's: Google's SwiftShader, out of Debian's chromium package (about
# 80 MB to fetch), without installing a browser.
#
#   export VK_ICD_FILENAMES=$(bash scripts/swiftshader.sh)
#
# Unpacks the driver into build/swiftshader, once, and prints its manifest. Ends with 1 where it can't be had.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/swiftshader
manifest=$folder/usr/lib/chromium/vk_swiftshader_icd.json
if ! [ -s "$manifest" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    fetch() { apt-get download -qq -o APT::Sandbox::User=root chromium chromium-common >&2; }
    fetch || { apt-get update -qq >&2 && fetch; } || { echo "SwiftShader: chromium can't be downloaded" >&2; exit 1; }
    mkdir -p "$folder"
    for package in chromium*.deb; do
        dpkg-deb --fsys-tarfile "$package" >files.tar
        mapfile -t names < <(tar -tf files.tar | grep -i swiftshader)
        [ ${#names[@]} = 0 ] || tar -xf files.tar -C "$folder" "${names[@]}"
    done
fi
[ -s "$manifest" ] || { echo "SwiftShader: Debian's chromium packages have none" >&2; exit 1; }
echo "$manifest"
