"""Runs and results in Python: compare, curves, tables, pictures, TensorBoard's files."""

import csv
import math
import os
import struct

import pytest

import rubato
from conftest import DATA
from rubato import _events

FILE = """
name = "results"
[[workers]]
name = "w"
count = 2
step_seconds = 0.1
[model]
kind = "mlp"
hidden = [8]
{data}
[training]
batch = 16
learning_rate = 0.05
[evaluation]
interval_seconds = 1
[stop]
target_loss = 0.8
max_seconds = 60
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    place = tmp_path_factory.mktemp("results")
    (place / "edge.toml").write_text(FILE.format(data=DATA))
    heard = []
    result = rubato.compare(
        place / "edge.toml",
        sync=["bsp", "adsp"],
        seeds=2,
        out=place / "out",
        save=True,
        progress=heard.append,
    )
    return result, heard, place


def test_runs(compared):
    result, heard, place = compared
    assert [(run.sync, run.seed) for run in result.runs] == [
        ("bsp", 1), ("adsp", 1), ("bsp", 2), ("adsp", 2)
    ]  # fmt: skip
    assert result.virtual and result.target["loss"] == 0.8 and os.path.exists(result.report)
    for run in result.runs:
        assert 0 < run.time_to_target <= run.seconds and run.steps > 0 and run.loss < 1.5
        assert len({len(values) for values in run.curve.values()}) == 1
        assert [at.loss for at in heard if (at.sync, at.seed) == (run.sync, run.seed)] == (
            pytest.approx(run.curve["loss"])
        )
    assert result.best.time_to_target == min(run.time_to_target for run in result.runs)
    loaded = rubato.load(result.best.model)
    assert sum(len(values) for values in loaded.values()) > 0


def test_tables_and_pictures(compared):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    result, _, _ = compared
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 4
    assert (frame.groupby("sync").time_to_target.median() > 0).all()
    curves = result.curves_to_pandas()
    assert set(curves.columns) >= {"sync", "seed", "seconds", "steps", "loss", "accuracy"}
    assert len(curves) == sum(len(run.curve["loss"]) for run in result.runs)
    axes = result.plot(x="steps")
    assert len(axes.get_lines()) >= 4
    assert result._repr_html_().count("<tr>") == 5 and "bsp" in repr(result)


def test_what_was_not_measured_is_a_gap(compared, tmp_path):
    """An accuracy that a loop does not measure."""
    result, _, place = compared
    for name in os.listdir(place / "out"):
        if os.path.isfile(place / "out" / name):
            (tmp_path / name).write_bytes((place / "out" / name).read_bytes())
    with open(tmp_path / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[1]["accuracy"] = ""
    with open(tmp_path / "curves.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    accuracy = rubato.Comparison(tmp_path).runs[0].curve["accuracy"]
    assert math.isnan(accuracy[1]) and accuracy[2] == result.runs[0].curve["accuracy"][2]


def event_class():
    """tensorflow/core/util/event.proto and summary.proto, as far as scalars go."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            made.field.add(
                name=field,
                number=number,
                type=kind,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type_name=of,
            )

    message(
        "Value",
        ("tag", 1, kinds.TYPE_STRING, False, None),
        ("simple_value", 2, kinds.TYPE_FLOAT, False, None),
    )
    message("Summary", ("value", 1, kinds.TYPE_MESSAGE, True, ".t.Value"))
    message(
        "Event",
        ("wall_time", 1, kinds.TYPE_DOUBLE, False, None),
        ("step", 2, kinds.TYPE_INT64, False, None),
        ("file_version", 3, kinds.TYPE_STRING, False, None),
        ("summary", 5, kinds.TYPE_MESSAGE, False, ".t.Summary"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("t.Event")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


def records(path):
    """The records of a TFRecord, whose checksums hold."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        assert data[at + 8 : at + 12] == _events._masked_crc(data[at : at + 8])
        found.append(data[at + 12 : at + 12 + size])
        assert data[at + 12 + size : at + 16 + size] == _events._masked_crc(found[-1])
        at += 16 + size
    return found


def test_checksum():
    # The check value of CRC-32C (RFC 3720 has it, too), masked as TFRecord does.
    crc = 0xE3069283
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert _events._masked_crc(b"123456789") == struct.pack("<I", masked)


def test_files_of_tensorboard(compared, tmp_path):
    event = event_class()
    result, _, _ = compared
    paths = result.to_tensorboard(tmp_path / "boards")
    assert [os.path.basename(os.path.dirname(path)) for path in paths] == [
        "bsp-1", "adsp-1", "bsp-2", "adsp-2"
    ]  # fmt: skip
    for run, path in zip(result.runs, paths):
        first, *rest = [event.FromString(each) for each in records(path)]
        assert first.file_version == "brain.Event:2"
        losses = [each for each in rest if each.summary.value[0].tag == "loss"]
        assert [each.summary.value[0].simple_value for each in losses] == (
            pytest.approx(run.curve["loss"])
        )
        assert [each.step for each in losses] == run.curve["steps"]
        assert [each.wall_time - first.wall_time for each in losses] == (
            pytest.approx(run.curve["seconds"], abs=1e-5)
        )


def test_a_real_run(tmp_path):
    text = FILE.replace("step_seconds = 0.1", "step_seconds = 0.002")
    text = text.replace("interval_seconds = 1", "interval_seconds = 0.05")
    (tmp_path / "edge.toml").write_text(text.format(data=DATA))
    heard = []
    result = rubato.up(
        tmp_path / "edge.toml", sync="asp", seed=3, out=tmp_path / "out", progress=heard.append
    )
    (run,) = result.runs
    assert not result.virtual and (run.sync, run.seed) == ("asp", 3)
    assert run.time_to_target is not None and run.model is not None and os.path.exists(run.model)
    assert [at.loss for at in heard] == pytest.approx(run.curve["loss"])


def test_errors_are_the_lines_of_the_command(tmp_path):
    (tmp_path / "wrong.toml").write_text("name = 7\n")
    with pytest.raises(rubato.BadInput, match="wrong.toml"):
        rubato.compare(tmp_path / "wrong.toml", out=tmp_path / "out")
    with pytest.raises(rubato.BadInput, match="no results of a run are here"):
        rubato.Comparison(tmp_path)
