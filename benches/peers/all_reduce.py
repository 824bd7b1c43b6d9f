"""Time of an all-reduce by size: the peers of benches/all_reduce.rs, by the protocol of the example `allreduce`.

Started as the ranks of Open MPI (`all_reduce.py mpi`) or of torchrun's variables (`all_reduce.py gloo`). Rank 0 prints a
JSON object a size: bytes, and the median time in seconds of the slowest rank.
"""
import json
import sys
import time

import numpy as np

WARM_UP = 3


def mpi():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    time_of_all = np.zeros(1)

    def slowest(seconds):
        time_of_all[0] = seconds
        world.Allreduce(MPI.IN_PLACE, time_of_all, MPI.MAX)
        return time_of_all[0]

    return world.rank, world.size, world.Barrier, slowest, lambda array: array, lambda a: world.Allreduce(MPI.IN_PLACE, a)


def gloo():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    def slowest(seconds):
        tensor = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor.item()

    return dist.get_rank(), dist.get_world_size(), dist.barrier, slowest, torch.from_numpy, dist.all_reduce


def main():
    rank, ranks, barrier, slowest, wrap, all_reduce = {"mpi": mpi, "gloo": gloo}[sys.argv[1]]()
    seconds = float(sys.argv[2])
    for size in map(int, sys.argv[3:]):
        array = np.zeros(size // 4, np.float32)
        content = (np.arange(size // 4) % 1024).astype(np.float32)
        data, times, repetitions = wrap(array), [], 1
        index = 0
        while index < WARM_UP + repetitions:
            np.multiply(content, rank + 1, out=array)
            barrier()
            began = time.perf_counter()
            all_reduce(data)
            taken = slowest(time.perf_counter() - began)
            if index >= WARM_UP:
                times.append(taken)
            elif index + 1 == WARM_UP:
                repetitions = min(2000, max(5, int(seconds / taken)))
            index += 1
        assert (array == content * (ranks * (ranks + 1) // 2)).all(), "the sum is wrong"
        if rank == 0:
            print(json.dumps({"bytes": size, "seconds": sorted(times)[len(times) // 2]}), flush=True)


main()
