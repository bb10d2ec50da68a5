#!/usr/bin/python3
"""Runs ONNX files with Debian 13's onnxruntime: onnx_jobs.py WORK JOBS, where onnx.mjs says what JOBS are.

As it is imported, it complains at length: it registers operators that the libonnx beside it has, too.
"""
import json
import sys

import numpy
import onnxruntime


def run(job):
    raw = numpy.fromfile(job["input"], dtype=job["type"])
    texts = job["texts"]
    samples = len(texts) if texts else raw.size // int(numpy.prod(job["shape"]))
    inputs = {}
    if raw.size > 0:
        inputs["input"] = raw.reshape(samples, *job["shape"])
    if texts:
        inputs["categories"] = numpy.array(texts, dtype=object)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
    for name, values in zip(job["outputs"], session.run(job["outputs"], inputs)):
        values.tofile(f"{job['out']}.{name}")


with open(sys.argv[2], encoding="utf8") as file:
    for each in json.load(file):
        run(each)
