#!/usr/bin/env bash
# Everything this project needs from an NVIDIA card, in one run: the recording (twice, compared), the same through
# Vulkan where its driver is there, MUFU over all 2^32 inputs, and the disassembly of every row.
#
#   bash script/h200.sh [NAME] [record] [vulkan] [sass] [mufu]      (no part named: all)
#
# Results go to $OUT (default: ./out). Needs numpy, typer, rich; nvcc and cuobjdump for mufu and sass.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=${OUT:-out}
name=${1:-sm90-h200}
shift || true
parts=" ${*:-record vulkan sass mufu} "
mkdir -p "$out"
work=$(mktemp -d)
mkdir "$work/p" && ln -s "$PWD/core" "$work/p/phobos_sim"
export PYTHONPATH="$work/p${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1

record() { # folder, json, via
    timeout 200 python3 -c "
import sys
from pathlib import Path
from phobos_sim.cli.record import command
command(out=Path(sys.argv[1]), verify=True, by='phobos-sim project', json=sys.argv[2], via=sys.argv[3])
" "$1" "$2" "$3"
}

if [[ $parts == *" record "* ]]; then
    record "$work/1/$name" "$out/record.json" cuda
    record "$work/2/$name" "$work/record.json" cuda | tail -1
    diff -r "$work/1/$name" "$work/2/$name" && echo "recorded twice: identical files"
    [[ -d $work/1/$name ]] && tar -C "$work/1" -cf "$out/$name.tar" "$name"
    # the fragment layout of sm_70's m8n8k4, which later chips still execute (with arithmetic of their own)
    timeout 60 python3 -c "
from phobos_sim import isa
from phobos_sim.recordings.recorder.cuda import CudaRecorder
from phobos_sim.recordings.recorder.record import check_layouts, layout_job
with CudaRecorder() as card:
    check_layouts(card, [layout_job(isa.lookup(key))[0] for key in ('HMMA.884.F32', 'HMMA.884.F16')])
    print('m8n8k4: layout ok')
"
fi
if [[ $parts == *" vulkan "* ]]; then
    record "$work/v/$name-vulkan" "$out/record-vulkan.json" vulkan && tar -C "$work/v" -cf "$out/$name-vulkan.tar" "$name-vulkan"
fi
if [[ $parts == *" sass "* ]]; then
    timeout 100 python3 script/sass_of_rows.py --json "$out/sass.json" >"$out/sass.log" 2>&1
    tail -1 "$out/sass.log"
fi
if [[ $parts == *" mufu "* ]]; then
    timeout 60 python3 script/verify_mufu.py --control 2>&1 | tail -9
    timeout 260 python3 script/verify_mufu.py --minutes 3 --json "$out/mufu.json" 2>&1 | tee "$out/mufu.log"
fi
ls -l "$out"
