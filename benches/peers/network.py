"""Times of DenseNet-121 on the CPU: the peers of benches/network, PyTorch and ONNX Runtime.

Started with contender, task, batch and image size; prints `ready` when warm. For each line on standard input it runs some
steps and prints one JSON object with the fields of `Measured` in benches/network/main.rs.
"""
import contextlib
import json
import resource
import sys
import time

CONTENDER, TASK = sys.argv[1:3]
BATCH, SIZE, THREADS, WARM_UP, STEPS = map(int, sys.argv[3:])


def onnx():
    import tempfile

    import numpy
    import onnxruntime
    import torch
    import torchvision

    model = torchvision.models.densenet121(num_classes=14).eval()
    images = torch.rand(BATCH, 3, SIZE, SIZE)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(model, (images,), file.name, dynamo=False, input_names=["images"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
    inputs = {"images": images.numpy().astype(numpy.float32)}
    return lambda: session.run(None, inputs)


def pytorch():
    import torch
    import torchvision

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model = torchvision.models.densenet121(num_classes=14)
    images = torch.rand(BATCH, 3, SIZE, SIZE)
    if "channels-last" in CONTENDER:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    precision = contextlib.nullcontext
    if "bf16" in CONTENDER:
        def precision():
            return torch.autocast("cpu", torch.bfloat16)
    if TASK == "infer":
        model.eval()
        run = torch.compile(model) if "compiled" in CONTENDER else model

        def infer():
            with torch.inference_mode(), precision():
                run(images)

        return infer

    targets = (torch.rand(BATCH, 14) < 0.1).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = torch.nn.BCEWithLogitsLoss(reduction="sum")
    run = torch.compile(model) if "compiled" in CONTENDER else model

    def train():
        optimizer.zero_grad()
        with precision():
            loss = criterion(run(images).float(), targets) / BATCH
        loss.backward()
        optimizer.step()

    return train


def main():
    step = onnx() if CONTENDER == "onnx-runtime" else pytorch()
    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = []
        for _ in range(STEPS):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": seconds, "peak_kib": peak}), flush=True)


main()
