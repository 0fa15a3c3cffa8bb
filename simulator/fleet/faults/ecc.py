"""Memory that wears out: correctable errors that come back, rows that run out, errors
that cannot be corrected.

After NVIDIA's GPU memory error management guide: eight spare rows per bank, a remap that fails when
they are used up, XID 48 with 63 and 94 (contained) or 95 (uncontained), SRAM's own threshold.
"""

from __future__ import annotations

from functools import partial

from simulator.cells import SPARE_ROWS
from simulator.fleet import effects
from simulator.fleet.plan import Plan, TopologyNode
from simulator.fleet.world import FleetState, Process

HOUR, DAY = 3600.0, 86400.0
# the last line of a burst of three comes this long after the first instant of its tick
LINE_S = 1.1
MAX_BURST = 5000


def chronic_cell(plan: Plan) -> None:
    """F01: some hours of the day bring a burst of correctable errors of
    one GPU, the others none.
    """
    lasts = 7 * DAY
    for case in plan.cases():
        if place := plan.place(lasts, needs_s=lasts, busy=False, alone=False):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            process = partial(
                _bursts,
                gpu=place.gpu,
                share=case.magnitude,
                burst=plan.draw("burst"),
                hours=int(lasts / HOUR),
            )
            plan.inject(place.onset_s, process)


def storm(plan: Plan) -> None:
    """F02: correctable errors for hours, then one that cannot be corrected; contained, the job
    dies, the GPU is reset later.
    """
    for case in plan.cases():
        lead, idle = case.magnitude * HOUR, plan.draw("reset_hours") * HOUR
        place = plan.place(
            lead + idle, needs_s=lead + HOUR, alone=False, fits=partial(_works_later, plan, lead)
        )
        if place:
            hit = plan.on_grid(place.onset_s + lead)
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                hit + idle,
                evident_s=hit + LINE_S,
                from_evidence=True,
            )
            if lead:
                plan.inject(
                    place.onset_s, partial(_storm, gpu=place.gpu, share=0.5, hours=int(lead / HOUR))
                )
            plan.inject(hit, partial(_hit, gpu=place.gpu, contained=True, reset_s=idle))
            plan.kill(plan.job(place.node, hit), hit + 5)


def uncontained(plan: Plan) -> None:
    """F03: an uncorrectable error that was not contained: XID 95, a reset is due and comes late."""
    for case in plan.cases():
        reset = plan.draw("reset_days") * DAY
        if place := plan.place(reset, needs_s=HOUR, alone=False):
            end = place.onset_s + max(reset, 600.0)
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                end,
                evident_s=place.onset_s + LINE_S,
            )
            plan.inject(
                place.onset_s,
                partial(_hit, gpu=place.gpu, contained=False, reset_s=max(reset, 600.0)),
            )
            plan.kill(place.job, place.onset_s + 5)


def exhaustion(plan: Plan) -> None:
    """F04: rows of one bank are used up one by one, until none is left and the next remap fails."""
    days = plan.end_s / DAY
    for case in plan.cases():
        every = DAY / case.magnitude
        # so many before, or it would not fit into the run
        used = max(0, SPARE_ROWS - int((days - 1.0) * DAY / every) + 1)
        rest = max(SPARE_ROWS - used, 1)
        used = SPARE_ROWS - rest
        lasts = every * (rest + 1)
        if place := plan.place(
            min(lasts, plan.end_s - 2 * HOUR),
            needs_s=min(every * rest + HOUR, plan.end_s - 2 * HOUR),
            busy=False,
            alone=False,
        ):
            bank = int(plan.rng.integers(plan.topology.profile.gpu.banks))
            gpu, device = place.gpu, plan.topology.gpus[place.gpu]
            none = plan.on_grid(place.onset_s + every * (rest - 1))
            failed = plan.on_grid(none + every)
            plan.truth(
                case,
                device,
                place.onset_s,
                failed + HOUR,
                evident_s=none,
                suffix="/none",
                from_evidence=True,
            )
            if failed < plan.end_s - 60:
                plan.truth(
                    case,
                    device,
                    failed,
                    failed + HOUR,
                    evident_s=failed + LINE_S,
                    detect_by_s=10.0,
                    severity="page",
                    suffix="/failed",
                )
            plan.inject(0.0, partial(_used, gpu=gpu, bank=bank, rows=used))
            plan.inject(place.onset_s, partial(_rows, gpu=gpu, bank=bank, rows=rest, every=every))


def sram(plan: Plan) -> None:
    """F05: uncorrectable SRAM errors one after the other, until the threshold is exceeded."""
    # the flag stays, as nobody replaces the GPU: a second time there is nothing to tell
    struck: set[int] = set()
    for case in plan.cases():
        errors, every = plan.pick("errors"), plan.draw("hours_between") * HOUR
        lasts = errors * every
        if place := plan.place(
            lasts + HOUR,
            needs_s=lasts + 600,
            busy=False,
            alone=False,
            fits=lambda place: place.gpu not in struck,
        ):
            struck.add(place.gpu)
            flagged = plan.on_grid(place.onset_s + (errors - 1) * every)
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                flagged + HOUR,
                evident_s=flagged,
                from_evidence=True,
            )
            plan.inject(place.onset_s, partial(_sram, gpu=place.gpu, errors=errors, every=every))


def _works_later(plan: Plan, after_s: float, place: TopologyNode) -> bool:
    return plan.job(place.node, place.onset_s + after_s) is not None


def _bursts(world: FleetState, *, gpu: int, share: float, burst: float, hours: int) -> Process:
    for _ in range(hours):
        within = float(world.rng.uniform(0, HOUR))
        hit, size = world.rng.random() < share, int(world.rng.geometric(1 / burst))
        yield within
        if hit:
            effects.ecc(world, gpu, corrected=True, count=min(size, MAX_BURST))
        yield HOUR - within


def _storm(world: FleetState, *, gpu: int, share: float, hours: int) -> Process:
    effects.xid(world, gpu, 92, after_s=1.0)
    yield from _bursts(world, gpu=gpu, share=share, burst=50.0, hours=hours)


def _hit(world: FleetState, *, gpu: int, contained: bool, reset_s: float) -> Process:
    effects.uncorrectable(world, gpu, contained=contained, codes=(48, 63, 94 if contained else 95))
    yield reset_s
    effects.reset(world, gpu)


def _used(world: FleetState, *, gpu: int, bank: int, rows: int) -> Process:
    """Rows that were remapped long ago."""
    for _ in range(rows):
        effects.remap(world, gpu, bank=bank)
    effects.reset(world, gpu)
    yield 0.0


def _rows(world: FleetState, *, gpu: int, bank: int, rows: int, every: float) -> Process:
    for _ in range(rows):
        effects.uncorrectable(world, gpu, bank=bank)
        yield min(every / 2, 6 * HOUR)
        effects.reset(world, gpu)
        yield every - min(every / 2, 6 * HOUR)
    effects.ecc(world, gpu, corrected=False)
    effects.remap(world, gpu, bank=bank)
    effects.xid(world, gpu, 64, after_s=0.7)
    effects.recover(world, gpu, 1, after_s=0.9)


def _sram(world: FleetState, *, gpu: int, errors: int, every: float) -> Process:
    for number in range(errors):
        if number == errors - 1:
            world.cells.sram_threshold[gpu] = True
        effects.ecc(world, gpu, corrected=False, place="sram")
        effects.xid(world, gpu, 48, after_s=0.6)
        yield every
