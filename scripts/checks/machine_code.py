"""Machine code of kernels as nvdisasm lists it: instructions, basic blocks, loops, and the cheapest
way around a loop that does some work.

A warp whose lanes stay together issues an instruction once, also one that a predicate turns off.
So what a way through the code costs is the number of its instructions.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(?:@(!?U?P[0-9T]+)\s+)?([A-Z0-9_.]+)(.*)")
LABEL = re.compile(r"((?:\.L_|\$)[\w$]+):")  # of a jump, or of a function
PREDICATE = re.compile(r"\s*!?U?P[0-9]")  # as the first operand: of a jump, a second condition
TARGET = re.compile(r"`\(((?:\.L_|\$)[\w$]+)\)")

State = tuple[int, tuple[int, ...]]  # a block, and how much of the work is done before it


@dataclass(frozen=True)
class Instruction:
    """One instruction: `opcode` with its suffixes, and where it jumps, if it does."""

    opcode: str
    is_conditional: bool = False
    target: str = ""

    @property
    def name(self) -> str:
        """The opcode without suffixes."""
        return self.opcode.split(".")[0]

    @property
    def is_jump(self) -> bool:
        """Whether lanes that are together may go elsewhere; BRA.DIV is for those that are not."""
        return self.name == "BRA" and not self.opcode.startswith("BRA.DIV")

    @property
    def is_call(self) -> bool:
        """Whether a function may follow. What follows that is the next instruction again."""
        return self.name == "CALL"

    @property
    def ends(self) -> bool:
        """Whether what comes next is not reached through it."""
        return not self.is_conditional and (self.is_jump or self.name in ("EXIT", "RET", "BPT"))


@dataclass
class Block:
    """Instructions that run together, and the blocks that may follow."""

    instructions: list[Instruction] = field(default_factory=list)
    next: list[int] = field(default_factory=list)


@dataclass
class Loop:
    """A loop: its first block, and all blocks from which that is reached again."""

    head: int
    blocks: set[int]


@dataclass
class Way:
    """A way once around a loop."""

    blocks: list[int]
    instructions: list[Instruction]

    @property
    def n_instructions(self) -> int:
        """Its cost."""
        return len(self.instructions)

    @property
    def n_jumps(self) -> int:
        """How often it may turn off."""
        return sum(each.is_jump for each in self.instructions)

    def mix(self) -> Counter[str]:
        """How often each opcode is on it, without suffixes."""
        return Counter(each.name for each in self.instructions)


def read_listing(text: str) -> dict[str, list[Block]]:
    """The kernels in a listing of `nvdisasm --print-code`, by name, as blocks in their order."""
    kernels: dict[str, list[Instruction | str]] = {}
    lines: list[Instruction | str] = []
    for line in text.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            lines = kernels.setdefault(match.group(1), [])
        elif match := LABEL.match(line):
            lines.append(match.group(1))
        elif match := INSTRUCTION.match(line):
            _, guard, opcode, rest = match.groups()
            target = TARGET.search(rest)
            lines.append(
                Instruction(
                    opcode,
                    bool(guard) or PREDICATE.match(rest) is not None,
                    target.group(1) if target else "",
                )
            )
    return {name: blocks_of(lines) for name, lines in kernels.items()}


def blocks_of(lines: list[Instruction | str]) -> list[Block]:
    """Cuts instructions, with labels between them, into blocks."""
    blocks = [Block()]
    block_of_label: dict[str, int] = {}
    for line in lines:
        if isinstance(line, str):
            if blocks[-1].instructions:
                blocks.append(Block())
            block_of_label[line] = len(blocks) - 1
            continue
        blocks[-1].instructions.append(line)
        if line.is_jump or line.is_call or line.ends:
            blocks.append(Block())
    for number, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else None
        if last and (last.is_jump or last.is_call) and last.target in block_of_label:
            block.next.append(block_of_label[last.target])
        if number + 1 < len(blocks) and not (last and last.ends):
            block.next.append(number + 1)
    return blocks


def reachable(blocks: list[Block]) -> list[int]:
    """The blocks that are reached from the first, every one before those it leads to but for the
    jumps back."""
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].next))]
    while stack:
        number, following = stack[-1]
        for each in following:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(blocks[each].next)))
                break
        else:
            order.append(number)
            stack.pop()
    return order[::-1]


def predecessors(blocks: list[Block], order: list[int]) -> dict[int, list[int]]:
    """Which of the blocks lead to each."""
    before: dict[int, list[int]] = {number: [] for number in order}
    for number in order:
        for each in blocks[number].next:
            before[each].append(number)
    return before


def dominators(order: list[int], before: dict[int, list[int]]) -> dict[int, int]:
    """For each block the last one that every way to it goes through (Cooper, Harvey, Kennedy)."""
    place = {number: i for i, number in enumerate(order)}
    above = {order[0]: order[0]}
    is_changed = True
    while is_changed:
        is_changed = False
        for number in order[1:]:
            new = -1
            for each in (each for each in before[number] if each in above):
                while new != -1 and new != each:
                    if place[new] > place[each]:
                        new = above[new]
                    else:
                        each = above[each]
                new = each
            if above.get(number) != new:
                above[number] = new
                is_changed = True
    return above


def loops_of(blocks: list[Block]) -> list[Loop]:
    """All loops, those of fewer blocks first. Jumps back to one block are one loop."""
    order = reachable(blocks)
    before = predecessors(blocks, order)
    above = dominators(order, before)
    found: dict[int, Loop] = {}
    for number in order:
        for head in blocks[number].next:
            each = number
            while each not in (head, above[each]):
                each = above[each]
            if each != head:
                continue
            loop = found.setdefault(head, Loop(head, {head}))
            stack = [number]
            while stack:
                each = stack.pop()
                if each not in loop.blocks:
                    loop.blocks.add(each)
                    stack += before[each]
    return sorted(found.values(), key=lambda loop: len(loop.blocks))


def cheapest_way(
    blocks: list[Block], loop: Loop, work: Mapping[str, int], kind_of: Callable[[Instruction], str]
) -> Way | None:
    """The way around a loop with the fewest instructions that has at least as many of each kind of
    instruction as `work` says; None if there is none.

    This is Dijkstra's algorithm over pairs of a block and what was done of the work before it.
    """
    enough = tuple(work.values())
    done_by = {number: work_of(blocks[number], work, kind_of) for number in loop.blocks}
    start = (loop.head, (0,) * len(enough))
    end = (loop.head, enough)
    costs = {start: 0}
    came_from: dict[State, State] = {}
    heap = [(0, start)]
    while heap:
        cost, state = heapq.heappop(heap)
        if state == end:
            return way_to(blocks, end, came_from)
        if cost > costs[state]:
            continue
        number, done = state
        after = tuple(min(a + b, c) for a, b, c in zip(done, done_by[number], enough))
        cost += len(blocks[number].instructions)
        for following in blocks[number].next:
            new = (following, after)
            if following not in loop.blocks or (following == loop.head and after != enough):
                continue
            if new not in costs or cost < costs[new]:
                costs[new] = cost
                came_from[new] = state
                heapq.heappush(heap, (cost, new))
    return None


def work_of(
    block: Block, work: Mapping[str, int], kind_of: Callable[[Instruction], str]
) -> tuple[int, ...]:
    """How many instructions of each kind of `work` a block has."""
    kinds = Counter(kind_of(each) for each in block.instructions)
    return tuple(kinds[kind] for kind in work)


def way_to(blocks: list[Block], end: State, came_from: dict[State, State]) -> Way:
    """The way that leads to `end`."""
    numbers = []
    state = end
    while state in came_from:
        state = came_from[state]
        numbers.append(state[0])
    numbers.reverse()
    return Way(numbers, [each for number in numbers for each in blocks[number].instructions])
