#!/bin/sh
# Packs the libraries that Rubato is built with and runs with into build/packed, for a machine on
# which nothing can be installed, such as a rented one with a GPU. That machine needs a C++ compiler,
# CMake 3.25, make or ninja, and for the CUDA device the toolkit and cuDNN. It may be another
# distribution, with the glibc of this one or newer: 2.36 of Debian 12, 2.41 of Debian 13. docs/gpu.md
# has the commands to build there.
# Debian 12 or 13. Usage: deploy/pack.sh
set -eu
cd "$(dirname "$0")/.."
deploy/install.sh build run test
machine=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
packed=build/packed

# The groups without programs and data, and what they depend on. The compiler's own libraries and
# libc are those of the other machine.
named=$(deploy/install.sh --list build run test |
  grep -Evx 'g\+\+|cmake|ninja-build|ccache|help2man|bash-completion|systemd|dataset-.*')
# shellcheck disable=SC2086  # a list of words
packages=$(apt-cache depends --recurse --installed --important $named | grep '^[a-z0-9]' |
  sed 's/:.*//' | sort -u |
  grep -Evx 'libc6.*|libc-.*|linux-libc-dev|libcrypt.*|libgcc-s1|libstdc\+\+6|libgomp1|gcc-.*')

rm -rf $packed build/packed.tar.xz
mkdir -p "$packed/usr/lib/$machine" "$packed/usr/include/$machine"

# Headers, shared libraries, what CMake and pkg-config read, and two programs. Of static libraries
# only those that the build or its CMake files insist on.
# shellcheck disable=SC2086
dpkg -L $packages | sort -u |
  grep -E '^(/usr)?/(include|lib|share/(cmake|pkgconfig|javascript/chart\.js|nodejs/chart\.js/dist))/|/bin/(flatc|pkgconf)$' |
  grep -Ev '/(catch2|Catch2|unicode|python3|systemd|krb5/plugins)/|\.la$|/chart\.esm|helpers' |
  grep -E '/lib(flatbuffers|rapidcheck|onnxifi_loader)\.a$|[^a]$|[^.]a$' |
  while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || printf '%s\n' "${file#/}"
  done | tar -C / -T - -cf - --transform='s,^lib/,usr/lib/,' | tar -C $packed -xf -

# Links: through /etc/alternatives to what they stand for, and none that is absolute.
for link in "/usr/lib/$machine"/lib*.so* "/usr/include/$machine"/*.h; do
  case $(readlink "$link") in /etc/alternatives/*) ;; *) continue ;; esac
  [ ! -e "$packed$(readlink -f "$link")" ] ||
    ln -sfr "$packed$(readlink -f "$link")" "$packed$link"
done
find $packed -type l | while read -r link; do
  case $(readlink "$link") in /*) ln -sfr "$packed$(readlink -f "$(readlink "$link")")" "$link" ;; esac
done
find $packed -xtype l -delete  # to what was left out

cat >$packed/pkg-config <<'END'
#!/bin/sh
root=$(cd "$(dirname "$0")" && pwd)
export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$root/usr/lib/MACHINE/pkgconfig:$root/usr/share/pkgconfig"
LD_LIBRARY_PATH="$root/usr/lib/MACHINE" exec "$root/usr/bin/pkgconf" "$@"
END
sed -i "s/MACHINE/$machine/g" $packed/pkg-config
chmod +x $packed/pkg-config

cat >$packed/toolchain.cmake <<'END'
# cmake -DCMAKE_TOOLCHAIN_FILE=.../toolchain.cmake: build with the libraries beside this file.
set(packed ${CMAKE_CURRENT_LIST_DIR})
set(libraries ${packed}/usr/lib/MACHINE)
set(CMAKE_LIBRARY_ARCHITECTURE MACHINE)
set(CMAKE_PREFIX_PATH ${packed}/usr)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${packed}/usr/include ${packed}/usr/include/MACHINE)
set(PKG_CONFIG_EXECUTABLE ${packed}/pkg-config)
find_file(RUBATO_CHART_JS chart.min.js NO_DEFAULT_PATH
  PATHS ${packed}/usr/share/javascript/chart.js ${packed}/usr/share/nodejs/chart.js/dist)
# A run path that also holds for the libraries' own libraries.
add_link_options(LINKER:--disable-new-dtags LINKER:-rpath,${libraries} LINKER:-rpath-link,${libraries})
END
sed -i "s/MACHINE/$machine/g" $packed/toolchain.cmake

XZ_OPT='-T0 -6' tar -C build -cJf build/packed.tar.xz packed
du -sh $packed build/packed.tar.xz
