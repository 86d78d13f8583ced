#!/bin/sh
# Brings data that only tests use, and that may not be passed on with the sources, to the user's
# cache: tools/test_data.sh. Tests that need them are skipped without. Needs npm and python3.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dedloc/test-data
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# 6,236 verses in Bengali, with the place of their revelation (package CC-BY-SA 4.0; the
# translation's own terms apart).
if [ ! -s "$cache/quran_bn.json" ]; then
    npm pack --silent quran-json@3.1.2 >/dev/null
    tar xzf quran-json-3.1.2.tgz package/dist/quran_bn.json
    mv package/dist/quran_bn.json "$cache/quran_bn.json"
fi
# 500 hand-labelled sentences (MIT).
if [ ! -s "$cache/hironsan.txt" ]; then
    python3 -m pip download --quiet --no-deps hironsancorpus==0.1.2
    tar xzf hironsancorpus-0.1.2.tar.gz
    mv hironsancorpus-0.1.2/hironsan/corpus/iob_sents.txt "$cache/hironsan.txt"
fi
echo "test data are in $cache"
