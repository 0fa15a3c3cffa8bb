"""One GPU with its MIG instances and NVLinks: found, described, and asked.

Runs in the driver child.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import SLOW
from collector.sources.nvml.gpm import GpmReader
from collector.sources.nvml.library import GONE, Library, NvmlError, follow
from collector.sources.nvml.questions import Call, Gpm, Way, ways
from collector.sources.nvml.target import Target
from collector.sources.nvml.wire import pack_document

_MAX_LINKS = 72  # Rubin has 36, nvml.h reserves GPM metrics for 72
_MAX_INSTANCES = 7  # NVML_GPU_INSTANCE_PROFILE_1_SLICE
_MAX_PROCESSES = 256
_LINK_COUNT = 91  # NVML_FI_DEV_NVLINK_LINK_COUNT
# Every how many looks at the slow facts (one a minute unless facts_period says otherwise) a target
# is asked what it refused; targets take turns, so that no look is followed by a slow sweep.
_REFUSED_LOOKS = 10
_NUMBERS = count()


class Plan:
    """What is asked of each kind of target: columns and slow facts with their ``read`` strings; and
    of how many ``processes`` of a GPU the memory is.
    """

    def __init__(
        self,
        questions: Mapping[str, Mapping[str, str]],
        facts: Mapping[str, Mapping[str, str]],
        hold: float = 1.0,
        processes: int = 0,
    ) -> None:
        self.hold, self.processes = hold, processes
        self._questions = questions
        self._facts = facts
        self._parsed: dict[tuple[str, int], dict[str, tuple[Way, ...]]] = {}

    def questions(self, kind: str, link: int = -1) -> dict[str, tuple[Way, ...]]:
        """Ways to ask for each column."""
        key = (kind, link)
        if key not in self._parsed:
            self._parsed[key] = {
                name: ways(read, link) for name, read in self._questions[kind].items()
            }
        return self._parsed[key]

    def gpm(self, kind: str) -> dict[str, int]:
        """GPM metric of each column that is one."""
        return {
            name: asked[0].id
            for name, asked in self.questions(kind).items()
            if asked and isinstance(asked[0], Gpm)
        }

    def facts(self, kind: str, link: int = -1) -> dict[str, tuple[Way, ...]]:
        """Ways to ask for each slow fact."""
        return {
            name: asked for name, read in self._facts[kind].items() if (asked := ways(read, link))
        }


class Gpu:
    """A GPU: its handle, the targets to read, and what was sent to its parent about it."""

    def __init__(self, library: Library, plan: Plan, index: int, handle: Any, uuid: str) -> None:
        self.index, self.handle = index, handle
        self._library, self._plan = library, plan
        self._own = Target(
            library, next(_NUMBERS), index, handle, plan.questions("gpu"), hold=plan.hold
        )
        self._gpm = GpmReader(library, index, handle, plan.gpm("gpu"))
        self._instances: dict[str, tuple[Target, GpmReader]] = {}
        self._links: dict[int, Target] = {}
        self._logged: dict[int, bytes] = {}
        self._processes: list[list[int]] | None = None
        self._memory: list[list[int]] | None = None
        self._mig_mode, self._looks = 0, 0
        self._uuid = uuid
        self._seek_links()

    def describe(self) -> Iterator[bytes]:
        """Messages about this GPU and what belongs to it, as far as they say anything new."""
        yield from self._tell(self._own, "gpu", self._uuid, self._read_facts("gpu", self.handle))
        yield from self._seek_instances()
        for link, target in self._links.items():
            facts = self._read_facts("nvlink", self.handle, link)
            yield from self._tell(
                target, "nvlink", f"{self._uuid}/{link}", facts | {"link": str(link)}
            )

    def look_again(self) -> Iterator[bytes]:
        """As describe; nothing where the GPU is lost: the sweep reports it."""
        mode = self._mig_mode
        try:
            yield from self.describe()
        except NvmlError:
            return
        self._ask_refused(mig_changed=self._mig_mode != mode)

    def targets(self, *, links: bool) -> Iterator[tuple[Target, GpmReader | None]]:
        """What to read in a sweep."""
        yield self._own, self._gpm
        yield from self._instances.values()
        if links:
            for target in self._links.values():
                yield target, None

    def processes(self) -> list[list[int]] | None:
        """Processes that hold the GPU now, as pid, GPU instance, compute instance; None
        where they are as last sent, or not known. Of none the first reading says so too: a child
        before this one may have sent some that are gone.
        """
        found = {
            (
                int(p.pid),
                int(getattr(p, "gpuInstanceId", -1)),
                int(getattr(p, "computeInstanceId", -1)),
            )
            for answers in self._own.lists.values()
            for p in answers
            if hasattr(p, "pid")
        }
        now = [list(p) for p in sorted(found)[:_MAX_PROCESSES]]
        if now == self._processes or not (found or any(map(_is_compute, self._own.lists))):
            return None
        self._processes = now
        return now

    def memory(self) -> list[list[int]] | None:
        """What the processes use that use most, as pid, GPU instance, bytes; None where that is as
        last sent, or not asked for. A process that computes and draws is in two lists.
        """
        if not self._plan.processes:
            return None
        used = {
            (int(p.pid), int(getattr(p, "gpuInstanceId", -1))): int(size)
            for answers in self._own.lists.values()
            for p in answers
            if (size := getattr(p, "usedGpuMemory", None)) is not None
        }
        rows = sorted(([*process, size] for process, size in used.items()), key=lambda r: -r[2])
        now = rows[: self._plan.processes]
        if now == self._memory:
            return None
        self._memory = now
        return now

    def _ask_refused(self, *, mig_changed: bool) -> None:
        """Let the next sweep ask again what was refused: of all where the MIG mode changed, else of
        those that answered more before, and now and then of the others.
        """
        self._looks += 1
        for target in (self._own, *self._links.values()):
            asked = mig_changed or (self._looks + target.number) % _REFUSED_LOOKS == 0
            if asked or target.shrank:
                target.ask_again()
            if asked and target is self._own:  # refused together, they are asked one by one
                self._gpm.ask_again()

    def _tell(
        self,
        target: Target,
        kind: str,
        identity: str,
        facts: dict[str, str],
        others: Sequence[str] = (),
    ) -> Iterator[bytes]:
        message = pack_document(
            wire.DEVICE,
            self.index,
            target=target.number,
            kind=kind,
            id=identity,
            facts=facts,
            others=others,
        )
        if self._logged.get(target.number) != message:
            self._logged[target.number] = message
            yield message

    def _seek_links(self) -> None:
        field = Target(
            self._library, -1, self.index, self.handle, {"count": ways(f"field {_LINK_COUNT}")}
        )
        entries = field.read(0.0)
        number = (
            int.from_bytes(entries[32:36], "little")
            if field.columns and entries[28:32] == bytes(4)
            else _MAX_LINKS
        )
        for link in range(min(number, _MAX_LINKS)):
            try:
                self._ask("nvmlDeviceGetNvLinkState", self.handle, link)
            except NvmlError as error:
                if error.code in GONE:
                    raise
                if number == _MAX_LINKS:
                    break
                continue
            self._links[link] = Target(
                self._library,
                next(_NUMBERS),
                self.index,
                self.handle,
                self._plan.questions("nvlink", link),
                hold=self._plan.hold,
            )

    def _seek_instances(self) -> Iterator[bytes]:
        """MIG instances as they are now: one per GPU instance, that of its first compute instance.
        By the UUIDs of the others it is known to device plugins, too.
        """
        uuids: dict[int, list[str]] = {}
        found: dict[str, tuple[Any, int]] = {}
        for handle in self._mig_handles():
            try:
                instance = int(self._ask("nvmlDeviceGetGpuInstanceId", handle))
                uuid = str(self._ask("nvmlDeviceGetUUID", handle))
            except NvmlError as error:  # just destroyed, or of a tenant
                if error.code in GONE:
                    raise
                continue
            if instance not in uuids:
                found[uuid] = (handle, instance)
            uuids.setdefault(instance, []).append(uuid)
        # One that was destroyed and made again in between has the same UUID; the questions that its
        # handle refused meanwhile are asked again.
        again = {uuid for uuid, (target, _) in self._instances.items() if target.shrank}
        for uuid in again | (self._instances.keys() - found.keys()):
            target, gpm = self._instances.pop(uuid)
            gpm.close()
            yield pack_document(wire.GONE, self.index, target=target.number)
        for uuid, (handle, instance) in found.items():
            if uuid not in self._instances:
                self._instances[uuid] = (
                    Target(
                        self._library,
                        next(_NUMBERS),
                        self.index,
                        handle,
                        self._plan.questions("gpu_instance"),
                        hold=self._plan.hold,
                    ),
                    GpmReader(
                        self._library,
                        self.index,
                        self.handle,
                        self._plan.gpm("gpu_instance"),
                        instance,
                    ),
                )
            yield from self._tell(
                self._instances[uuid][0],
                "gpu_instance",
                uuid,
                self._read_facts("gpu_instance", handle),
                uuids[instance][1:],
            )

    def _mig_handles(self) -> Iterator[Any]:
        try:
            self._mig_mode = int(self._ask("nvmlDeviceGetMigMode", self.handle)[0])
            if not self._mig_mode:
                return
            most = self._most_instances()
        except NvmlError as error:
            if error.code in GONE:
                raise
            return
        for number in range(most):
            try:
                yield self._ask("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, number)
            except NvmlError as error:
                if error.code in GONE:
                    raise

    def _most_instances(self) -> int:
        try:
            return int(self._ask("nvmlDeviceGetMaxMigDeviceCount", self.handle))
        except NvmlError:
            return _MAX_INSTANCES

    def _read_facts(self, kind: str, handle: Any, link: int = -1) -> dict[str, str]:
        facts: dict[str, str] = {}
        for name, asked in self._plan.facts(kind, link).items():
            for way in asked:
                if not isinstance(way, Call):
                    continue
                try:
                    answer = follow(self._library.ask(self.index, handle, way, SLOW), way)
                except NvmlError as error:
                    if error.code in GONE:
                        raise
                    continue
                text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
                if text:
                    facts[name] = text[:128]
                break
        return facts

    def _ask(self, function: str, *arguments: Any) -> Any:
        return self._library.call(function, *arguments, gpu=self.index, patience=SLOW)


def _is_compute(function: str) -> bool:
    return function.startswith("nvmlDeviceGetComputeRunningProcesses")


def identify(library: Library, index: int) -> tuple[Any, str]:
    """Handle and UUID of the GPU of that index. NvmlError where it cannot be had."""
    handle = library.call("nvmlDeviceGetHandleByIndex", index, gpu=index, patience=SLOW)
    uuid = library.call("nvmlDeviceGetUUID", handle, gpu=index, patience=SLOW)
    return handle, uuid if isinstance(uuid, str) else uuid.decode()
