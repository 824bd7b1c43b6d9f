"""Times of a data-parallel step of DenseNet-121: the peer of benches/overlap, PyTorch's DistributedDataParallel on Gloo.

Started as ranks by torchrun's variables with image size, batch size and MiB of a bucket. Rank 0 prints one JSON object
with the fields of `Times` in benches/overlap/main.rs.
"""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torchvision

STEPS = 5
WARM_UP = 2


def main():
    image_size, batch_size, bucket = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torchvision.models.densenet121(num_classes=14)
    # As in DistributedDataParallel's own documentation; the running statistics travel at its forward pass otherwise.
    parallel = torch.nn.parallel.DistributedDataParallel(
        model, broadcast_buffers=False, gradient_as_bucket_view=True, bucket_cap_mb=bucket)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    images = torch.rand(batch_size, 3, image_size, image_size)
    targets = (torch.rand(batch_size, 14) < 0.1).float()
    criterion = torch.nn.BCEWithLogitsLoss(reduction="sum")

    def extreme(seconds, operation):
        tensor = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(tensor, op=operation)
        return tensor.item()

    def slowest(seconds):
        return extreme(seconds, dist.ReduceOp.MAX)

    def overlapped():
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = criterion(parallel(images), targets) / batch_size
        loss.backward()
        optimizer.step()
        return time.perf_counter() - began

    def apart():
        times = []
        began = time.perf_counter()

        def part():
            nonlocal began
            times.append(time.perf_counter() - began)
            began = time.perf_counter()

        optimizer.zero_grad()
        loss = criterion(model(images), targets) / batch_size
        part()
        loss.backward()
        part()
        gradients = [parameter.grad for parameter in model.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start:start + gradient.numel()].view_as(gradient))
            start += gradient.numel()
        part()
        optimizer.step()
        part()
        return times

    for _ in range(WARM_UP):
        overlapped()
        apart()
    parts, whole, both = [], [], []
    for _ in range(STEPS):
        dist.barrier()
        began = time.perf_counter()
        parts.append(apart())
        whole.append(slowest(time.perf_counter() - began))
        dist.barrier()
        both.append(slowest(overlapped()))
    forward, backward, communication, update = (statistics.median(part) for part in zip(*parts))
    forward, backward, update = slowest(forward), slowest(backward), slowest(update)
    # Whoever has waited has not communicated longer.
    communication = extreme(communication, dist.ReduceOp.MIN)
    if dist.get_rank() == 0:
        print(json.dumps({
            "computation": forward + backward + update,
            "backward": backward,
            "communication": communication,
            "after": statistics.median(whole),
            "overlapped": statistics.median(both),
            "bytes": 4 * sum(parameter.numel() for parameter in model.parameters()),
        }))


main()
