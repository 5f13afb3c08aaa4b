#!/usr/bin/env python3
"""ResNet-18 of torchvision on small images: exported, checked, trained three steps inside its arena, beside PyTorch.

    pip install ./python[torch] torchvision && python/examples/torchvision_resnet18.py

Prints both losses of every step; exits with 1 where they differ by more than 1e-3.
"""

import sys

import stowage
import torch
import torchvision


def main() -> None:
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=10)
    batches = [(torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))) for _ in range(3)]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss()

    step = stowage.compile(module, batches[0][0], loss=criterion, optimizer=optimizer, check=True)
    print(step.plan)
    print(f"with everything kept: {step.plan.without_recompute_bytes:,} bytes")

    worst = 0.0
    for images, labels in batches:
        found = step(images, labels)
        optimizer.zero_grad()
        loss = criterion(module.train()(images), labels)
        loss.backward()
        optimizer.step()
        worst = max(worst, abs(found - loss.item()))
        print(f"loss {found:.6f}, PyTorch {loss.item():.6f}")

    # The trained weights go back into the module under its own names, running statistics included.
    module.load_state_dict(step.state_dict())
    with torch.no_grad():
        scores = module.eval()(batches[0][0])
    difference = (scores - step.eval(batches[0][0])).abs().max().item()
    print(f"largest difference of a loss {worst:.1e}, of a score of the evaluation {difference:.1e}")
    sys.exit(worst > 1e-3 or difference > 1e-3)


if __name__ == "__main__":
    main()
