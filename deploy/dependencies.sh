#!/bin/sh
# Makes sure of what the build needs from the system: SQLite, ZeroMQ and a Swift toolchain.
# Installs the two libraries where it may (as root, on Debian and its kin), else says what to do.
# With "tests" it also tries to get the tools of the fault tests, which are skipped without them.
set -eu

missing=""
[ -f /usr/include/sqlite3.h ] || missing="$missing libsqlite3-dev"
[ -f /usr/include/zmq.h ] || missing="$missing libzmq3-dev"

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing$missing ..."
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null 2>&1 || {
            apt-get update -qq >/dev/null
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
        }
    else
        echo "Tributary needs$missing. Please run: sudo apt-get install$missing" >&2
        exit 1
    fi
fi

if [ "${1:-}" = tests ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    tools=""
    command -v strace >/dev/null 2>&1 || tools="$tools strace"
    ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || tools="$tools libfaketime"
    if [ -n "$tools" ]; then
        echo "Installing$tools for the fault tests ..."
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $tools >/dev/null 2>&1 ||
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $tools; } \
                >/dev/null 2>&1 || echo "They cannot be installed; those tests will be skipped."
    fi
fi

if ! command -v swift >/dev/null 2>&1; then
    echo "Tributary needs a Swift 6.2 toolchain or newer: https://www.swift.org/install" >&2
    exit 1
fi
