"""A file of torch.save: read only where the user asked for it, by torch's restricted unpickler, and never by the other one.

Before torch sees the file: a zip must be one that torch.save writes (stored, nothing nested, no program), and the pickle in it must ask
for nothing but torch's own and a few plain containers. Afterwards no tensor may claim memory that the file did not bring.
"""

import pickle
import pickletools
import re
import zipfile
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import torch

from vitrail.errors import VitrailError
from vitrail.models.reading.names import listed, quoted

Stream = BufferedReader | BytesIO
CONTAINERS = frozenset({"collections OrderedDict", "collections Counter", "builtins set", "__builtin__ set", "_codecs encode"})
MOST_PICKLE_BYTES = 100_000_000  # of data.pkl, which has names and shapes only: the numbers stand beside it
LEGACY_PICKLES = 5  # one after the other in a file before torch 1.6: magic number, protocol, system, object, keys of storages
RECORDS = re.compile(
    r"[^/]+/(data\.pkl|data/\d+|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id)"
)
PROGRAM = re.compile(r"[^/]+/(code/.*|constants\.pkl)")


def unpickle(path: Path) -> Any:
    """What torch.load(weights_only=True) gives; its storages are mapped where the file is a zip."""
    try:
        if not path.is_file():
            raise VitrailError(f"{path}: {'not a file' if path.exists() else 'missing'}")
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"  # how torch tells, too: zipfile would look at the end
            if zipped:
                check_zip(file, path.stat().st_size, where=str(path))
            else:
                check_legacy(file, where=str(path))
        # Mapped, a storage that claims too much is cut at the end of the file; read, it would reach into other memory.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except VitrailError:
        raise
    except pickle.UnpicklingError as error:
        raise VitrailError(f"{path}: weights_only=True refuses it ({_refused(str(error))})") from None
    except Exception as error:  # of zipfile, pickletools and torch: whatever they like on broken files
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise VitrailError(f"{path}: truncated or not a file of torch.save ({reason})") from None


def check_zip(file: Stream, file_bytes: int, *, where: str) -> None:
    """The zip is of torch.save's layout, and what its pickle asks for is harmless."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.orig_filename for member in members]
        if any(PROGRAM.fullmatch(name) for name in names):
            raise VitrailError(f"{where}: a TorchScript program; only weights are read (state_dict)")
        if strange := [name for name in names if not RECORDS.fullmatch(name)]:
            raise VitrailError(
                f"{where}: {listed(strange)} is nothing that torch.save writes; archives in archives are not opened"
            )
        if len({name.split("/")[0] for name in names}) > 1 or len(set(names)) < len(names):
            raise VitrailError(f"{where}: the zip has two records of one name, or two folders")
        if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members):
            raise VitrailError(f"{where}: the zip is compressed or encrypted, as torch.save never does")
        if sum(member.file_size for member in members) > file_bytes:
            raise VitrailError(f"{where}: the zip claims more bytes than the file's {file_bytes}")
        pickled = next((member for member in members if member.filename.endswith("/data.pkl")), None)
        if pickled is None:
            raise VitrailError(f"{where}: a zip without data.pkl: not a file of torch.save")
        if pickled.file_size > MOST_PICKLE_BYTES:
            raise VitrailError(f"{where}: a pickle of {pickled.file_size} bytes, {MOST_PICKLE_BYTES} is the limit")
        check_globals(BytesIO(archive.read(pickled)), where=where)


def check_legacy(file: Stream, *, where: str) -> None:
    """A file without a zip: pickles, then the storages. The oldest format, a tar, torch reads only with all of pickle."""
    file.seek(257)
    if file.read(5) == b"ustar":
        raise VitrailError(f"{where}: the tar format of torch before 0.2, which cannot be read without running code")
    file.seek(0)
    for _ in range(LEGACY_PICKLES):
        check_globals(file, where=where)


def check_globals(stream: Stream, *, where: str) -> None:
    """Read a pickle's instructions, without following them, and refuse what is named there beside torch's own and containers."""
    refused = sorted(
        {name for name in _globals(stream) if not name.startswith(("torch ", "torch.")) and name not in CONTAINERS}
    )
    if refused:
        names = listed([name.replace(" ", ".") for name in refused])
        raise VitrailError(
            f"{where}: the pickle asks for {names}: weights_only=True refuses all but tensors and plain containers"
        )


def _globals(stream: Stream) -> Iterator[str]:
    texts: list[str] = []  # STACK_GLOBAL takes the last two; torch has no such instruction, but the message may name them
    for code, argument, _ in pickletools.genops(stream):
        if code.name in ("GLOBAL", "INST"):
            yield str(argument)
        elif code.name == "STACK_GLOBAL":
            yield " ".join(texts[-2:])
        elif isinstance(argument, str):
            texts.append(argument)


def check_memory(tensors: dict[str, torch.Tensor], file_bytes: int, *, where: str) -> None:
    """Every tensor is plain, and no larger than what it stands on; all together they are no larger than the file.

    A pickle may spread one number over a shape of 10^12, or ask for memory without bringing any numbers.
    """
    storages: dict[int, int] = {}
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise VitrailError(f"{where}: {quoted(name)} is sparse, quantized or without numbers: only plain tensors are read")
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):  # of a shell around another tensor
            raise VitrailError(f"{where}: {quoted(name)} has no numbers of its own: only plain tensors are read") from None
        if tensor.numel() * tensor.element_size() > storage.nbytes():
            raise VitrailError(
                f"{where}: {quoted(name)} of shape {quoted(tuple(tensor.shape))} has {storage.nbytes()} bytes in the file"
            )
        storages[storage.data_ptr()] = storage.nbytes()
    if (total := sum(storages.values())) > file_bytes:
        raise VitrailError(f"{where}: tensors of {total} bytes in a file of {file_bytes}")


def _refused(message: str) -> str:
    """The one thing that torch's page of advice is about."""
    reason = message.split("WeightsUnpickler error:")[-1].strip().splitlines()[0]
    return reason.split(". ")[0]
