"""The models of the test suite as plain PyTorch modules: one definition for ONNX export, references and timing.

The published networks (VGG, ResNet, MobileNet-v2, DenseNet-121) follow their papers and carry torchvision's parameter
names, so that a published state_dict fits. Every model takes one float32 batch [N, ...] and returns logits [N, classes].
`MODELS` maps a name to its builder and the shape of one sample.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor, nn


def conv_bn(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A bias-free convolution that keeps the image size at stride 1, and its batch norm."""
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(cout)]


# ---- small networks -------------------------------------------------------------------------------------------------


class DigitsCnn(nn.Module):
    """The demo's network for 8x8 digits: two conv-bn-relu pairs, each pooled, and a dense head with dropout."""

    def __init__(self, width: int = 32, dropout: float = 0.3) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(1, width, 3)
        self.conv2, self.bn2 = conv_bn(width, width, 3)
        self.conv3, self.bn3 = conv_bn(width, 2 * width, 3)
        self.conv4, self.bn4 = conv_bn(2 * width, 2 * width, 3)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(2 * width * 2 * 2, 128)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.pool(self.relu(self.bn2(self.conv2(x))))
        x = self.relu(self.bn3(self.conv3(x)))
        x = self.pool(self.relu(self.bn4(self.conv4(x))))
        x = self.dropout(self.relu(self.fc1(self.flatten(x))))
        return self.fc2(x)


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling for 28x28 images."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(self.flatten(x)))
        return self.fc3(self.relu(self.fc2(x)))


def mlp(*widths: int) -> nn.Sequential:
    """Dense layers of the given widths with ReLU between them."""
    layers: list[nn.Module] = []
    for i, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ReLU()] if i else []
        layers.append(nn.Linear(fan_in, fan_out))
    return nn.Sequential(*layers)


# ---- the systems of the table of workloads -----------------------------------------------------------------------------


def conv_relu(*channels: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for cin, cout in zip(channels, channels[1:]):
        layers += [nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(inplace=True)]
    return layers


class MyModel(nn.Sequential):
    """Three convolutions and one dense layer that outweighs everything else; the output is a vector of values."""

    def __init__(self, sample: tuple[int, ...] = (20, 19, 22), outputs: int = 3258) -> None:
        dense = nn.Linear(10 * sample[1] * sample[2], outputs)
        super().__init__(*conv_relu(sample[0], 50, 25, 10), nn.Flatten(), dense)


class MyModelFull(nn.Module):
    """The same convolutions and three dense layers on one flat input, the first with a sigmoid, side by side."""

    def __init__(self, sample: tuple[int, ...] = (20, 45, 43), outputs: int = 29913) -> None:
        super().__init__()
        self.features = nn.Sequential(*conv_relu(sample[0], 50, 25, 10), nn.Flatten())
        width = 10 * sample[1] * sample[2]
        # 6.6 GB in all: no bytes until somebody says where.
        self.fc1, self.fc2, self.fc3 = (nn.Linear(width, outputs, device="meta") for _ in range(3))
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        return torch.cat([self.sigmoid(self.fc1(x)), self.fc2(x), self.fc3(x)], 1)


# ---- U-Net ----------------------------------------------------------------------------------------------------------


class UNet(nn.Module):
    """U-Net with batch norms and zero padding, so that the map of classes is as large as the image."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(self.pair(a, b) for a, b in zip([3, *widths], widths))
        steps = list(zip(widths[::-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in steps)
        self.merge = nn.ModuleList(self.pair(a, b) for a, b in steps)
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def pair(cin: int, cout: int) -> nn.Sequential:
        return nn.Sequential(*conv_bn(cin, cout, 3), nn.ReLU(inplace=True), *conv_bn(cout, cout, 3), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


# ---- VGG ------------------------------------------------------------------------------------------------------------

VGG_STAGES = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3)}


class Vgg(nn.Module):
    def __init__(self, depth: int, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        cin = 3
        for stage, repeats in enumerate(VGG_STAGES[depth]):
            cout = min(64 << stage, 512)
            for _ in range(repeats):
                layers += [nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(inplace=True)]
                cin = cout
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(4096, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.flatten(self.avgpool(self.features(x))))


# ---- ResNet ---------------------------------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, cin: int, planes: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(cin, planes, 3, stride)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv_bn(planes, planes, 3)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, cin: int, planes: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(cin, planes, 1)
        self.conv2, self.bn2 = conv_bn(planes, planes, 3, stride)
        self.conv3, self.bn3 = conv_bn(planes, planes * self.expansion, 1)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, block: type, blocks: tuple[int, ...], classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        cin = 64
        for stage, count in enumerate(blocks):
            planes = 64 << stage
            cout = planes * block.expansion
            stride = 1 if stage == 0 else 2
            fits = stride == 1 and cin == cout
            down = None if fits else nn.Sequential(*conv_bn(cin, cout, 1, stride))
            layer = [block(cin, planes, stride, down)]
            layer += [block(cout, planes, 1, None) for _ in range(count - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
            cin = cout
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(cin, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.flatten(self.avgpool(x)))


# ---- MobileNet-v2 ---------------------------------------------------------------------------------------------------


def conv_bn_relu6(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(*conv_bn(cin, cout, kernel, stride, groups), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Expand (1x1), filter per channel (3x3), project (1x1); the input is added where the shapes agree."""

    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = cin * expand
        self.residual = stride == 1 and cin == cout
        layers: list[nn.Module] = [] if expand == 1 else [conv_bn_relu6(cin, hidden, 1)]
        layers += [conv_bn_relu6(hidden, hidden, 3, stride, hidden), *conv_bn(hidden, cout, 1)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    # expansion, output channels, repeats, stride of the first
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        cin = 32
        features: list[nn.Module] = [conv_bn_relu6(3, cin, 3, 2)]
        for expand, cout, repeats, stride in self.STAGES:
            for i in range(repeats):
                features.append(InvertedResidual(cin, cout, stride if i == 0 else 1, expand))
                cin = cout
        features.append(conv_bn_relu6(cin, 1280, 1))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.flatten(self.avgpool(self.features(x))))


# ---- DenseNet -------------------------------------------------------------------------------------------------------


class DenseLayer(nn.Module):
    def __init__(self, cin: int, growth: int, bottleneck: int) -> None:
        super().__init__()
        inner = growth * bottleneck
        self.norm1 = nn.BatchNorm2d(cin)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(cin, inner, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(inner, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = torch.cat(features, 1)
        x = self.conv1(self.relu1(self.norm1(x)))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    """Each layer sees the concatenation of everything before it in the block."""

    def __init__(self, cin: int, layers: int, growth: int) -> None:
        named = {f"denselayer{i + 1}": DenseLayer(cin + i * growth, growth, 4) for i in range(layers)}
        super().__init__(named)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], growth: int = 32, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["conv0"] = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        layers["norm0"] = nn.BatchNorm2d(channels)
        layers["relu0"] = nn.ReLU(inplace=True)
        layers["pool0"] = nn.MaxPool2d(3, 2, 1)
        for i, count in enumerate(blocks, 1):
            layers[f"denseblock{i}"] = DenseBlock(channels, count, growth)
            channels += count * growth
            if i < len(blocks):
                half = channels // 2
                layers[f"transition{i}"] = nn.Sequential(OrderedDict(
                    norm=nn.BatchNorm2d(channels), relu=nn.ReLU(inplace=True),
                    conv=nn.Conv2d(channels, half, 1, bias=False), pool=nn.AvgPool2d(2),
                ))  # fmt: skip
                channels = half
        layers[f"norm{len(blocks) + 1}"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(layers)
        self.relu = nn.ReLU(inplace=True)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.flatten(self.avgpool(self.relu(self.features(x)))))


# ---- Inception ------------------------------------------------------------------------------------------------------


class InceptionBlock(nn.Module):
    """GoogLeNet's block: 1x1, 3x3 and 5x5 branches (the latter two after a 1x1 reduction) and a pooled 1x1 branch."""

    def __init__(self, cin: int, c1: int, r3: int, c3: int, r5: int, c5: int, pool: int) -> None:
        super().__init__()

        def unit(a: int, b: int, kernel: int) -> list[nn.Module]:
            return [nn.Conv2d(a, b, kernel, padding=kernel // 2), nn.ReLU(inplace=True)]

        self.branch1 = nn.Sequential(*unit(cin, c1, 1))
        self.branch2 = nn.Sequential(*unit(cin, r3, 1), *unit(r3, c3, 3))
        self.branch3 = nn.Sequential(*unit(cin, r5, 1), *unit(r5, c5, 5))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), *unit(cin, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class Inception(nn.Module):
    """GoogLeNet (Inception v1) without auxiliary heads; the stem has its two local response normalizations."""

    # 1x1; 3x3 reduction, 3x3; 5x5 reduction, 5x5; pool projection. None is a max pool.
    BLOCKS = (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
        (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
        (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    )  # fmt: skip

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3)
        self.conv2 = nn.Conv2d(64, 64, 1)
        self.conv3 = nn.Conv2d(64, 192, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.norm1 = nn.LocalResponseNorm(5)
        self.norm2 = nn.LocalResponseNorm(5)
        blocks: list[nn.Module] = []
        cin = 192
        for spec in self.BLOCKS:
            if spec is None:
                blocks.append(nn.MaxPool2d(3, 2, 1))
                continue
            blocks.append(InceptionBlock(cin, *spec))
            cin = spec[0] + spec[2] + spec[4] + spec[5]
        self.blocks = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(0.4)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.maxpool(self.relu(self.conv1(x))))
        x = self.relu(self.conv3(self.relu(self.conv2(x))))
        x = self.blocks(self.maxpool(self.norm2(x)))
        return self.fc(self.dropout(self.flatten(self.avgpool(x))))


# ---- the list -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelSpec:
    build: Callable[[], nn.Module]
    sample: tuple[int, ...]
    classes: int


IMAGE = (3, 224, 224)

MODELS: dict[str, ModelSpec] = {
    "digits_cnn": ModelSpec(DigitsCnn, (1, 8, 8), 10),
    "mlp": ModelSpec(lambda: mlp(784, 512, 512, 10), (784,), 10),
    "mlp_large": ModelSpec(lambda: mlp(784, 4096, 4096, 4096, 10), (784,), 10),
    "mlp_small": ModelSpec(lambda: mlp(128, 128, 10), (128,), 10),
    "mlp_wide": ModelSpec(lambda: mlp(128, 512, 512, 10), (128,), 10),
    "mlp_accumulation": ModelSpec(lambda: mlp(64, 128, 2), (64,), 2),
    "mlp_block": ModelSpec(lambda: mlp(64, 64, 64, 2), (64,), 2),
    "my_model": ModelSpec(MyModel, (20, 19, 22), 3258),
    "my_model_full": ModelSpec(MyModelFull, (20, 45, 43), 3 * 29913),
    "my_model_small": ModelSpec(lambda: MyModel((20, 7, 6), 64), (20, 7, 6), 64),
    "my_model_full_small": ModelSpec(lambda: MyModelFull((20, 7, 6), 64), (20, 7, 6), 3 * 64),
    "unet": ModelSpec(UNet, (3, 256, 256), 2),
    "unet_small": ModelSpec(lambda: UNet(8, 2), (3, 32, 32), 2),
    "lenet": ModelSpec(LeNet, (1, 28, 28), 10),
    "vgg11": ModelSpec(lambda: Vgg(11), IMAGE, 1000),
    "vgg16": ModelSpec(lambda: Vgg(16), IMAGE, 1000),
    "resnet18": ModelSpec(lambda: ResNet(BasicBlock, (2, 2, 2, 2)), IMAGE, 1000),
    "resnet34": ModelSpec(lambda: ResNet(BasicBlock, (3, 4, 6, 3)), IMAGE, 1000),
    "resnet50": ModelSpec(lambda: ResNet(Bottleneck, (3, 4, 6, 3)), IMAGE, 1000),
    "mobilenet_v2": ModelSpec(MobileNetV2, IMAGE, 1000),
    "densenet121": ModelSpec(lambda: DenseNet((6, 12, 24, 16)), IMAGE, 1000),
    "inception": ModelSpec(Inception, IMAGE, 1000),
}
