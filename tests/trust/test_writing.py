"""What writing does to files that are there, to what is no file, to full disks, and to what the dead have left."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import halfstep as hs
from halfstep.data.atomic import atomic_write
from halfstep.data.files import ModelFileError, read, save

from .zoo import ZOO, answers, fitted


def saved_bytes(path):
    fitted("WALS").save(path)
    return path.read_bytes()


def test_a_device_stays_a_device(tmp_path):
    """os.replace would put a regular file in its place."""
    before = os.stat("/dev/null")
    fitted("WALS").save("/dev/null")
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_rdev, after.st_ino) == (before.st_rdev, before.st_ino)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_device_is_one_line_and_stays(tmp_path):
    with pytest.raises(OSError, match=r"^cannot write /dev/full: No space left on device; what was written") as raised:
        fitted("WALS").save("/dev/full")
    assert raised.value.errno == errno.ENOSPC
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_pipe_gets_the_bytes_of_the_file(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    fitted("WALS").save(pipe)
    reader.join()
    assert got[0] == saved_bytes(tmp_path / "model.safetensors")
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        saved_bytes(tmp_path / "model.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.safetensors").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    """A private model was open to everybody after the next save; while it was being written too."""
    path = tmp_path / "model.safetensors"
    saved_bytes(path)
    path.chmod(mode)
    with atomic_write(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == mode
    saved_bytes(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "x" * 240 + ".safetensors"])
def test_any_name_that_the_system_takes_can_be_saved_to(tmp_path, name):
    """The temporary's name was longer than that of the file."""
    for _ in range(2):
        saved_bytes(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_names_that_are_none_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    os.symlink("loop", "loop")
    for name, refusal in (("", FileNotFoundError), ("x" * 256, OSError), ("loop", OSError), (".", IsADirectoryError)):
        with pytest.raises(refusal) as raised:
            fitted("WALS").save(name)
        assert ".tmp" not in str(raised.value)
    assert os.path.islink("loop")
    assert os.listdir() == ["loop"]
    assert os.listdir(tmp_path) == ["here"]


# Where coverage is measured, a process that may write no more than this cannot write down what it has covered.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
LIMITED = """
import resource, signal, sys
import halfstep as hs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
model = hs.WALS(rank=8, max_iter=1, random_state=0).fit(hs.datasets.load_sample_skills())
try:
    model.save(sys.argv[1])
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_cannot_grow_leaves_what_was_there(tmp_path, there):
    path = tmp_path / "model.safetensors"
    before = saved_bytes(path) if there else b""
    command = [sys.executable, "-c", LIMITED, path]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=UNMEASURED).stdout
    kept = "the file that was there is unchanged" if there else "nothing was written"
    assert said == f"cannot write {path}: File too large; {kept}\n"
    assert os.listdir(tmp_path) == (["model.safetensors"] if there else [])
    assert not there or path.read_bytes() == before


COMMAND = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from halfstep.apps.cli import main
sys.argv = ["halfstep", "fit", "wals", "sample", "--rank", "8", "--max-iter", "1", "-o", sys.argv[1]]
main()
"""


@pytest.mark.heavy
def test_the_command_says_it_in_one_line(tmp_path):
    path = tmp_path / "model.safetensors"
    done = subprocess.run([sys.executable, "-c", COMMAND, path], capture_output=True, text=True, env=UNMEASURED)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"halfstep: cannot write {path}: File too large; nothing was written"
    assert "Traceback" not in done.stderr


KILLED = """
import os, sys, time
from halfstep.data.atomic import atomic_write
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_the_next_save_removes_what_a_killed_one_has_left_and_nothing_else(tmp_path):
    target = tmp_path / "model.safetensors"
    begun = []
    for _ in range(2):
        begun.append(subprocess.Popen([sys.executable, "-c", KILLED, target], stdout=subprocess.PIPE))
        assert begun[-1].stdout.readline() == b"ready\n"
    dead, alive = begun
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    others = [".model.0123456789ab.tmp", ".model.0123456789a.tmp.safetensors", ".other.0123456789ab.tmp.safetensors"]
    for name in others:
        (tmp_path / name).write_text("not ours")
    assert len(os.listdir(tmp_path)) == 5
    try:
        saved_bytes(target)
        left = set(os.listdir(tmp_path)) - {target.name, *others}
        assert len(left) == 1  # that of the process that is alive
    finally:
        alive.kill()
        alive.wait()
    saved_bytes(target)
    assert set(os.listdir(tmp_path)) == {target.name, *others}


@pytest.mark.parametrize("name", list(ZOO))
def test_equal_fits_write_equal_bytes(tmp_path, name):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in ("one", "two"):
            ZOO[name]().save(tmp_path / path)
            time.sleep(0.01)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_mapped_load_never_mixes_two_files(tmp_path):
    """Header and tensors come from one open: a file that takes the name in between changes nothing."""
    path = tmp_path / "model.safetensors"
    stop = threading.Event()

    def write(k):
        save(path, "WALS", {"k": k}, {"a": np.full(5000, float(k)), "b": np.full(5000, k)})

    def keep_writing():
        k = 0
        while not stop.is_set():
            write(k := k + 1)

    write(0)
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        for _ in range(500):
            saved = read(path, mmap=True)
            assert (saved.arrays["a"] == saved.params["k"]).all()
            assert (saved.arrays["b"] == saved.params["k"]).all()
    finally:
        stop.set()
        writer.join()


def test_a_file_written_over_in_place_is_no_mixture(tmp_path):
    """Both ends of a file belong together: the seal is the last thing in it."""
    one, two = tmp_path / "one", tmp_path / "two"
    save(one, "WALS", {"k": 1}, {"a": np.full(5000, 1.0)})
    save(two, "WALS", {"k": 2}, {"a": np.full(5000, 2.0)})
    first, second = one.read_bytes(), two.read_bytes()
    for cut in (300, 2000, 20_000, len(first) - 10):
        one.write_bytes(second[:cut] + first[cut:])
        with pytest.raises(ModelFileError):
            read(one, mmap=True)


@pytest.mark.parametrize("name", ["WALS", "PLQMF", "BayesMF", "EASE", "CFEnsemble", "CFEnsembleCV", "Biases"])
def test_a_mapped_file_that_is_cut_raises_and_kills_nobody(tmp_path, name):
    path = tmp_path / "model.safetensors"
    fitted(name).save(path)
    model = hs.load(path, mmap=True)
    answers(name, model)
    os.truncate(path, 100)
    with pytest.raises(ModelFileError, match="was cut to 100 bytes while a model was mapped from it; load it again"):
        answers(name, model)


def test_a_mapped_model_outlives_its_replaced_and_its_deleted_file(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted("WALS").save(path)
    model, before = hs.load(path, mmap=True), answers("WALS", fitted("WALS"))
    hs.WALS(rank=1, max_iter=1).fit(np.eye(5)).save(path)
    for ours, theirs in zip(answers("WALS", model), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    path.unlink()
    np.testing.assert_array_equal(answers("WALS", model)[0], before[0])


def test_a_mapped_model_can_be_pickled(tmp_path):
    import pickle

    path = tmp_path / "model.safetensors"
    fitted("WALS").save(path)
    copy = pickle.loads(pickle.dumps(hs.load(path, mmap=True)))
    os.truncate(path, 100)
    np.testing.assert_array_equal(answers("WALS", copy)[0], answers("WALS", fitted("WALS"))[0])


def test_a_refused_folder_is_still_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"), atomic_write(tmp_path / "a" / "b"):
        pass
