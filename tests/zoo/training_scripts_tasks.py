"""Training scripts of pictures, sound, graphs, tables and decisions; see training_scripts.py."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_scripts import Script, adam, adamw, draw, script, sgd


# ---- segmentation and detection


class Segmenter(nn.Module):
    """Binary masks: Dice over the batch beside binary cross-entropy, the outputs thresholded nowhere."""

    def __init__(self, model: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, images: Tensor, masks: Tensor) -> dict[str, Tensor]:
        logits = self.model(images)
        return {"loss": self.loss(logits, masks) + F.binary_cross_entropy_with_logits(logits, masks)}


def masks_batch() -> dict[str, Tensor]:
    return {"images": torch.randn(2, 3, 64, 64), "masks": (torch.rand(2, 1, 64, 64) < 0.4).float()}


def segmentation(name: str, loss: str, rate: float = 1e-3, dynamic_batch: bool = True, **settings: Any) -> None:
    def make() -> Script:
        import segmentation_models_pytorch as smp

        model = getattr(smp, name)(encoder_name="resnet18", encoder_weights=None, classes=1, **settings)
        chosen = {"dice": lambda: smp.losses.DiceLoss("binary"), "focal": lambda: smp.losses.FocalLoss("binary"),
                  "jaccard": lambda: smp.losses.JaccardLoss("binary"), "tversky": lambda: smp.losses.TverskyLoss("binary", alpha=0.3, beta=0.7),
                  "lovasz": lambda: smp.losses.LovaszLoss("binary", per_image=False), "mcc": lambda: smp.losses.MCCLoss()}[loss]()  # fmt: skip
        return Script(Segmenter(model, chosen), draw(masks_batch, 8), adam(rate), settings={"dynamic_batch": dynamic_batch})

    make.__name__ = f"segmentation_{name.lower()}_{loss}"
    script(make)


segmentation("Unet", "dice", decoder_channels=(32, 16, 16, 8, 8))
segmentation("UnetPlusPlus", "focal", decoder_channels=(32, 16, 16, 8, 8))
segmentation("DeepLabV3Plus", "jaccard")
segmentation("FPN", "tversky", decoder_dropout=0.0)
segmentation("Unet", "lovasz", dynamic_batch=False, decoder_channels=(64, 64, 32, 32, 16), decoder_attention_type="scse")
segmentation("Segformer", "dice", 1e-4)
segmentation("Unet", "mcc", decoder_channels=(32, 16, 16, 8, 8))


class Detector(nn.Module):
    """One level of an anchor-free detector with targets per place: focal loss, generalized overlap of boxes, centerness."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own
        self.trunk = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU())
        self.scores, self.boxes, self.centers = nn.Conv2d(16, 5, 3, 1, 1), nn.Conv2d(16, 4, 3, 1, 1), nn.Conv2d(16, 1, 3, 1, 1)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor, classes: Tensor, boxes: Tensor, centers: Tensor) -> dict[str, Tensor]:
        from torchvision.ops import generalized_box_iou_loss, sigmoid_focal_loss

        h = self.trunk(images)
        logits = self.scores(h).flatten(2).transpose(1, 2)
        distances = F.relu(self.boxes(h) * self.scale).flatten(2).transpose(1, 2)
        places = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))
        found = torch.cat([places - distances[..., :2], places + distances[..., 2:] + 0.1], -1)
        positive = classes >= 0
        count = positive.sum().clamp(min=1).float()
        wanted = F.one_hot(classes.clamp(min=0), 5).float() * positive.unsqueeze(-1)
        focal = sigmoid_focal_loss(logits, wanted, reduction="sum") / count
        overlaps = overlap_loss(found, boxes) if self.own else generalized_box_iou_loss(found, boxes)
        overlap = (overlaps * positive).sum() / count
        center = F.binary_cross_entropy_with_logits(self.centers(h).flatten(1), centers, reduction="none")
        return {"loss": focal + overlap + (center * positive).sum() / count}


def overlap_loss(found: Tensor, wanted: Tensor) -> Tensor:
    """One less the generalized overlap of boxes, by clamps alone."""
    low, high = torch.maximum(found[..., :2], wanted[..., :2]), torch.minimum(found[..., 2:], wanted[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (found, wanted)]
    union = areas[0] + areas[1] - shared
    hull = (torch.maximum(found[..., 2:], wanted[..., 2:]) - torch.minimum(found[..., :2], wanted[..., :2])).prod(-1)
    return 1 - shared / (union + 1e-7) + (hull - union) / (hull + 1e-7)


def detector(own: bool) -> Script:
    def batch() -> dict[str, Tensor]:
        low = torch.rand(2, 64, 2) * 6
        return {"images": torch.randn(2, 3, 32, 32), "classes": torch.randint(-3, 5, (2, 64)).clamp(min=-1),
                "boxes": torch.cat([low, low + 1 + torch.rand(2, 64, 2)], -1), "centers": torch.rand(2, 64)}  # fmt: skip

    return Script(Detector(own), draw(batch), sgd(0.01))


@script
def anchor_free_detector() -> Script:
    return detector(own=True)


@script
def anchor_free_detector_with_torchvision_overlaps() -> Script:
    return detector(own=False)


class TorchvisionDetector(nn.Module):
    """A detector of torchvision with its targets: matching and sampling depend on the data."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=4, min_size=64, max_size=64)

    def forward(self, images: Tensor, boxes: Tensor, labels: Tensor) -> dict[str, Tensor]:
        losses = self.model(list(images), [{"boxes": b, "labels": c} for b, c in zip(boxes, labels)])
        return {"loss": sum(losses.values())}


@script
def torchvision_retinanet() -> Script:
    boxes = torch.tensor([[[4.0, 4, 30, 30], [10, 20, 50, 60]]]).repeat(2, 1, 1)
    return Script(TorchvisionDetector(), draw(lambda: {"images": torch.rand(2, 3, 64, 64), "boxes": boxes, "labels": torch.randint(1, 4, (2, 2))}, 3), sgd(1e-3))


class SuperResolution(nn.Module):
    """Residual blocks, pixel shuffle, and a loss of features of a frozen VGG beside the pixels'."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.head, self.body = nn.Conv2d(3, 16, 3, 1, 1), nn.ModuleList([nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.PReLU(), nn.Conv2d(16, 16, 3, 1, 1)) for _ in range(2)])
        self.tail = nn.Sequential(nn.Conv2d(16, 48, 3, 1, 1), nn.PixelShuffle(4))
        self.features = torchvision.models.vgg11(weights=None).features[:6].eval().requires_grad_(False)

    def forward(self, small: Tensor, large: Tensor) -> dict[str, Tensor]:
        h = self.head(small)
        for block in self.body:
            h = h + 0.2 * block(h)
        found = self.tail(h) + F.interpolate(small, scale_factor=4, mode="bicubic", align_corners=False)
        charbonnier = torch.sqrt((found - large) ** 2 + 1e-6).mean()
        variation = (found[..., 1:] - found[..., :-1]).abs().mean() + (found[..., 1:, :] - found[..., :-1, :]).abs().mean()
        return {"loss": charbonnier + 0.1 * F.mse_loss(self.features(found), self.features(large)) + 1e-3 * variation}


@script
def super_resolution_perceptual() -> Script:
    return Script(SuperResolution(), draw(lambda: {"small": torch.rand(2, 3, 12, 12), "large": torch.rand(2, 3, 48, 48)}), adam(1e-3))


class StyleTransfer(nn.Module):
    """The picture itself is what is trained (Gatys): features and Gram matrices of a frozen VGG."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.image = nn.Parameter(torch.rand(1, 3, 32, 32))
        self.features = torchvision.models.vgg11(weights=None).features[:6].eval().requires_grad_(False)
        for part in self.features:
            if isinstance(part, nn.ReLU):
                part.inplace = False

    def levels(self, x: Tensor) -> list[Tensor]:
        found = []
        for part in self.features:
            x = part(x)
            if isinstance(part, nn.Conv2d):
                found.append(x)
        return found

    @staticmethod
    def gram(x: Tensor) -> Tensor:
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / flat.shape[1:].numel()

    def forward(self, content: Tensor, style: Tensor) -> dict[str, Tensor]:
        mine, theirs, wanted = self.levels(self.image), self.levels(content), self.levels(style)
        loss = F.mse_loss(mine[-1], theirs[-1].detach())
        return {"loss": loss + 1e2 * sum(F.mse_loss(self.gram(a), self.gram(b).detach()) for a, b in zip(mine, wanted))}


@script
def neural_style_transfer() -> Script:
    content, style = torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)
    return Script(StyleTransfer(), draw(lambda: {"content": content, "style": style}), adam(0.02), settings={"dynamic_batch": False})


class Nerf(nn.Module):
    """Rays through a small NeRF: encoded positions, opacities composed along the ray."""

    def __init__(self, by_logarithms: bool = False) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(39, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        self.by_logarithms = by_logarithms
        self.register_buffer("bands", 2.0 ** torch.arange(6))

    def forward(self, origins: Tensor, directions: Tensor, jitter: Tensor, colors: Tensor) -> dict[str, Tensor]:
        depths = 2 + 4 * (torch.arange(16) + jitter) / 16
        points = origins[:, None] + directions[:, None] * depths[..., None]
        angles = (points[..., None] * self.bands).flatten(-2)
        raw = self.trunk(torch.cat([points, angles.sin(), angles.cos()], -1))
        widths = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e10)], -1)
        density = F.softplus(raw[..., 3])
        alpha = 1 - torch.exp(-density * widths)
        if self.by_logarithms:
            optical = density[:, :-1] * widths[:, :-1]
            kept = torch.exp(-torch.cumsum(torch.cat([torch.zeros_like(alpha[:, :1]), optical], -1), -1))
        else:
            kept = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        found = ((alpha * kept)[..., None] * torch.sigmoid(raw[..., :3])).sum(1)
        return {"loss": F.mse_loss(found, colors)}


def rays() -> dict[str, Tensor]:
    return {"origins": torch.randn(32, 3), "directions": F.normalize(torch.randn(32, 3), dim=-1), "jitter": torch.rand(32, 16), "colors": torch.rand(32, 3)}


@script
def nerf() -> Script:
    return Script(Nerf(), draw(rays), adam(5e-4))


@script
def nerf_by_sums_of_densities() -> Script:
    return Script(Nerf(True), draw(rays), adam(5e-4))


class Siren(nn.Module):
    """An image as a function of its coordinates, sines of 30 times what arrives; weights normalized."""

    def __init__(self) -> None:
        super().__init__()
        from torch.nn.utils.parametrizations import weight_norm

        self.layers = nn.ModuleList([weight_norm(nn.Linear(i, 32)) for i in (2, 32, 32)])
        self.head = nn.Linear(32, 3)

    def forward(self, places: Tensor, colors: Tensor) -> dict[str, Tensor]:
        for layer in self.layers:
            places = torch.sin(30 * layer(places) / 4)
        return {"loss": F.mse_loss(self.head(places), colors)}


@script
def siren() -> Script:
    return Script(Siren(), draw(lambda: {"places": torch.rand(64, 2) * 2 - 1, "colors": torch.rand(64, 3)}), adam(1e-4))


class PhysicsInformed(nn.Module):
    """Burgers' equation: derivatives of the network by its inputs stand in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))

    def forward(self, x: Tensor, t: Tensor, u: Tensor) -> dict[str, Tensor]:
        x, t = x.requires_grad_(True), t.requires_grad_(True)
        found = self.net(torch.cat([x, t], 1))
        u_t = torch.autograd.grad(found.sum(), t, create_graph=True)[0]
        u_x = torch.autograd.grad(found.sum(), x, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        return {"loss": ((u_t + found * u_x - 0.01 / math.pi * u_xx) ** 2).mean() + F.mse_loss(found, u)}


@script
def physics_informed_network() -> Script:
    return Script(PhysicsInformed(), draw(lambda: {"x": torch.rand(32, 1), "t": torch.rand(32, 1), "u": torch.randn(32, 1)}), adam())


# ---- points


class PointNet(nn.Module):
    """Points of a cloud, a learned transform that is held near orthogonal."""

    def __init__(self) -> None:
        super().__init__()
        self.transform = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.ReLU())
        self.matrix = nn.Linear(32, 9)
        self.points = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
        self.head = nn.Linear(64, 8)

    def forward(self, cloud: Tensor, labels: Tensor) -> dict[str, Tensor]:
        h = torch.max(self.transform(cloud), 2)[0]
        matrix = self.matrix(h).view(-1, 3, 3) + torch.eye(3)
        h = torch.max(self.points(torch.bmm(cloud.transpose(1, 2), matrix).transpose(1, 2)), 2)[0]
        away = torch.norm(torch.bmm(matrix, matrix.transpose(1, 2)) - torch.eye(3), dim=(1, 2)).mean()
        return {"loss": F.nll_loss(F.log_softmax(self.head(h), 1), labels) + 1e-3 * away}


@script
def pointnet() -> Script:
    return Script(PointNet(), draw(lambda: {"cloud": torch.randn(8, 3, 64), "labels": torch.randint(0, 8, (8,))}), adam())


class DynamicGraph(nn.Module):
    """DGCNN: each point meets its nearest neighbours in the features of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(6, 16, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2))
        self.second = nn.Sequential(nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2))
        self.head = nn.Linear(96, 8)

    @staticmethod
    def edges(x: Tensor, count: int = 6) -> Tensor:
        inner = -2 * x.transpose(2, 1) @ x
        square = (x**2).sum(1, keepdim=True)
        nearest = (-square - inner - square.transpose(2, 1)).topk(count, dim=-1)[1]
        b, c, n = x.shape
        flat = nearest.reshape(b, 1, -1).expand(-1, c, -1)
        neighbours = torch.gather(x, 2, flat).view(b, c, n, count)
        middle = x.unsqueeze(-1).expand(-1, -1, -1, count)
        return torch.cat([neighbours - middle, middle], 1)

    def forward(self, cloud: Tensor, labels: Tensor) -> dict[str, Tensor]:
        first = self.first(self.edges(cloud)).max(-1)[0]
        second = self.second(self.edges(first)).max(-1)[0]
        h = torch.cat([first, second], 1)
        h = torch.cat([h.max(2)[0], h.mean(2)], 1)
        return {"loss": F.cross_entropy(self.head(h), labels, label_smoothing=0.2)}


@script
def dgcnn() -> Script:
    return Script(DynamicGraph(), draw(lambda: {"cloud": torch.randn(4, 3, 32), "labels": torch.randint(0, 8, (4,))}), sgd(0.01))


# ---- graphs


class NodeClassifier(nn.Module):
    """Two layers of PyTorch Geometric over a fixed graph, which is known where the module holds it; the loss counts the training
    nodes."""

    def __init__(self, layer: str, known: Tensor | None, **settings: Any) -> None:
        super().__init__()
        self.register_buffer("known", known)
        import torch_geometric.nn as g

        heads = settings.get("heads", 1)
        make = getattr(g, layer)
        if layer == "GINConv":
            self.first = make(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16)))
            self.second = make(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)))
        else:
            self.first, self.second = make(12, 16, **settings), make(16 * heads, 4, **{**settings, **({"heads": 1} if heads > 1 else {})})

    def forward(self, x: Tensor, labels: Tensor, train: Tensor, edges: Tensor | None = None) -> dict[str, Tensor]:
        edges = self.known if edges is None else edges
        h = self.second(F.relu(self.first(x, edges)), edges)
        rows = F.cross_entropy(h, labels, reduction="none")
        return {"loss": (rows * train).sum() / train.sum()}


def on_a_graph(layer: str, known: bool = True, **settings: Any) -> None:
    def make() -> Script:
        x, edges = torch.randn(30, 12), torch.randint(0, 30, (2, 90))
        labels, train = torch.randint(0, 4, (30,)), (torch.rand(30) < 0.5).float()
        one = {"x": x, "labels": labels, "train": train} | ({} if known else {"edges": edges})
        return Script(NodeClassifier(layer, edges if known else None, **settings), [one] * 20, adam(1e-2), settings={"dynamic_batch": False})

    make.__name__ = f"geometric_{layer.lower()}" + ("" if known else "_edges_as_input")
    script(make)


for name in ("GCNConv", "SAGEConv"):
    on_a_graph(name, known=False)
for name in ("GCNConv", "SAGEConv", "GINConv", "GraphConv", "ChebConv", "TAGConv", "ARMAConv"):
    on_a_graph(name, **({"K": 2} if name == "ChebConv" else {}))
on_a_graph("GATConv", heads=2)
on_a_graph("GATv2Conv", heads=2)
on_a_graph("TransformerConv", heads=2)


# ---- sound


class KeywordSpotter(nn.Module):
    """A spectrogram of mel bands by torch.stft, masked bands, a small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", torch.rand(33, 16))
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.head = nn.Linear(16, 5)

    def forward(self, wave: Tensor, labels: Tensor) -> dict[str, Tensor]:
        spectrum = torch.stft(wave, 64, 32, 64, self.window, return_complex=True)
        power = torch.view_as_real(spectrum).pow(2).sum(-1)
        bands = torch.log(power.transpose(1, 2) @ self.mel + 1e-6).unsqueeze(1)
        return {"loss": F.cross_entropy(self.head(self.net(bands).mean((2, 3))), labels)}


@script
def keyword_spotting() -> Script:
    return Script(KeywordSpotter(), draw(lambda: {"wave": torch.randn(4, 512), "labels": torch.randint(0, 5, (4,))}), adam())


class SpeechCtc(nn.Module):
    """DeepSpeech: convolution, recurrent layers, connectionist temporal classification."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(16, 24, 5, 2, 2)
        self.rnn, self.head = nn.GRU(24, 24, batch_first=True, bidirectional=True), nn.Linear(48, 10)

    def forward(self, bands: Tensor, targets: Tensor, target_lengths: Tensor) -> dict[str, Tensor]:
        h = self.rnn(F.relu(self.conv(bands)).transpose(1, 2))[0]
        scores = F.log_softmax(self.head(h), -1).transpose(0, 1)
        lengths = torch.full((bands.shape[0],), scores.shape[0], dtype=torch.int64)
        return {"loss": F.ctc_loss(scores, targets, lengths, target_lengths, blank=0, zero_infinity=True)}


@script
def speech_ctc() -> Script:
    return Script(SpeechCtc(), draw(lambda: {"bands": torch.randn(4, 16, 40), "targets": torch.randint(1, 10, (4, 6)), "target_lengths": torch.randint(2, 7, (4,))}), adam())


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates and skips over quantized sound."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.gates = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4)])
        self.mixes, self.skips = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)]), nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)])
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(16, 32, 1), nn.ReLU(), nn.Conv1d(32, 32, 1))

    def forward(self, samples: Tensor) -> dict[str, Tensor]:
        x, total = self.table(samples).transpose(1, 2), 0
        for i, gate in enumerate(self.gates):
            filtered, opened = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            h = torch.tanh(filtered) * torch.sigmoid(opened)
            total = total + self.skips[i](h)
            x = x + self.mixes[i](h)
        return {"loss": F.cross_entropy(self.head(total)[..., :-1], samples[:, 1:])}


@script
def wavenet() -> Script:
    return Script(WaveNet(), draw(lambda: {"samples": torch.randint(0, 32, (4, 64))}), adam())


# ---- time series and tables


class NBeats(nn.Module):
    """Blocks that explain what the ones before them left over."""

    def __init__(self, back: int = 24, ahead: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(back, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, back + ahead)) for _ in range(4)])
        self.back = back

    def forward(self, past: Tensor, future: Tensor) -> dict[str, Tensor]:
        forecast = torch.zeros_like(future)
        for block in self.blocks:
            backcast, part = block(past).split([self.back, future.shape[1]], 1)
            past, forecast = past - backcast, forecast + part
        smape = 200 * ((forecast - future).abs() / (forecast.abs() + future.abs() + 1e-8)).mean()
        return {"loss": smape / 100 + F.mse_loss(forecast, future)}


@script
def n_beats() -> Script:
    return Script(NBeats(), draw(lambda: {"past": torch.randn(16, 24), "future": torch.randn(16, 6)}), adam())


class FusionTransformer(nn.Module):
    """A temporal fusion transformer in small: gated residual networks, selection of variables, LSTMs, attention, quantiles."""

    class Gated(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.a, self.b, self.gate, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 2 * width), nn.LayerNorm(width)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x + F.glu(self.gate(self.b(F.elu(self.a(x)))), -1))

    def __init__(self, width: int = 16, variables: int = 4) -> None:
        super().__init__()
        self.embeds = nn.ModuleList([nn.Linear(1, width) for _ in range(variables)])
        self.weights = nn.Linear(variables * width, variables)
        self.grns = nn.ModuleList([self.Gated(width) for _ in range(variables)])
        self.encoder, self.decoder = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.attention, self.out, self.head = nn.MultiheadAttention(width, 2, batch_first=True), self.Gated(width), nn.Linear(width, 3)

    def select(self, x: Tensor) -> Tensor:
        parts = [embed(x[..., i : i + 1]) for i, embed in enumerate(self.embeds)]
        weight = torch.softmax(self.weights(torch.cat(parts, -1)), -1).unsqueeze(-2)
        return (torch.stack([grn(part) for grn, part in zip(self.grns, parts)], -1) * weight).sum(-1)

    def forward(self, past: Tensor, known: Tensor, target: Tensor) -> dict[str, Tensor]:
        encoded, state = self.encoder(self.select(past))
        decoded, _ = self.decoder(self.select(known), state)
        every = torch.cat([encoded, decoded], 1)
        total, ahead = every.shape[1], known.shape[1]
        mask = torch.triu(torch.ones(ahead, total, dtype=torch.bool), diagonal=total - ahead + 1)
        attended, _ = self.attention(decoded, every, every, attn_mask=mask, need_weights=False)
        found = self.head(self.out(decoded + attended))
        quantiles = torch.tensor([0.1, 0.5, 0.9])
        error = target.unsqueeze(-1) - found
        return {"loss": torch.max((quantiles - 1) * error, quantiles * error).sum(-1).mean()}


@script
def temporal_fusion_transformer() -> Script:
    return Script(FusionTransformer(), draw(lambda: {"past": torch.randn(8, 12, 4), "known": torch.randn(8, 5, 4), "target": torch.randn(8, 5)}), adam())


class Recommender(nn.Module):
    """DLRM: bags of categories, dense features, products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(50, 8, mode="sum") for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, sparse: Tensor, clicked: Tensor) -> dict[str, Tensor]:
        vectors = torch.stack([self.bottom(dense), *[table(sparse[:, i]) for i, table in enumerate(self.tables)]], 1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))
        row, column = torch.tril_indices(4, 4, offset=-1)
        found = self.top(torch.cat([vectors[:, 0], pairs[:, row, column]], 1)).squeeze(1)
        return {"loss": F.binary_cross_entropy_with_logits(found, clicked)}


@script
def dlrm() -> Script:
    return Script(Recommender(), draw(lambda: {"dense": torch.randn(16, 6), "sparse": torch.randint(0, 50, (16, 3, 4)), "clicked": torch.randint(0, 2, (16,)).float()}),
                  lambda m: torch.optim.Adagrad(m.parameters(), lr=0.05))  # fmt: skip


class Experts(nn.Module):
    """A mixture of experts by dense routing: the two best of each token, a loss that balances them."""

    def __init__(self, count: int = 4, width: int = 16) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(count, width, 32) * 0.1), nn.Parameter(torch.randn(count, 32, width) * 0.1)
        self.head, self.count = nn.Linear(width, 5), count

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        probabilities = torch.softmax(self.router(x), -1)
        best, chosen = probabilities.topk(2, -1)
        gates = torch.zeros_like(probabilities).scatter(1, chosen, best / best.sum(-1, keepdim=True))
        every = torch.einsum("nef,efd->ned", F.silu(torch.einsum("nd,edf->nef", x, self.up)), self.down)
        h = x + torch.einsum("ne,ned->nd", gates, every)
        share = F.one_hot(chosen, self.count).float().sum(1).mean(0)
        balance = self.count * (share * probabilities.mean(0)).sum() / 2
        z = torch.logsumexp(self.router(x), -1).pow(2).mean()
        return {"loss": F.cross_entropy(self.head(h), labels) + 0.01 * balance + 1e-3 * z}


@script
def mixture_of_experts_dense() -> Script:
    return Script(Experts(), draw(lambda: {"x": torch.randn(32, 16), "labels": torch.randint(0, 5, (32,))}), adamw())


class Uncertain(nn.Module):
    """Two tasks whose weights are learned as logarithms of variances (Kendall)."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.classes, self.value = nn.Linear(16, 32), nn.Linear(32, 5), nn.Linear(32, 2)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor, labels: Tensor, values: Tensor) -> dict[str, Tensor]:
        h = F.silu(self.trunk(x))
        first, second = F.cross_entropy(self.classes(h), labels), F.gaussian_nll_loss(self.value(h)[:, 0], values, F.softplus(self.value(h)[:, 1]))
        weight = torch.exp(-self.log_vars)
        return {"loss": (weight * torch.stack([first, second]) + self.log_vars).sum(), "first": first.detach(), "second": second.detach()}


@script
def uncertainty_weighted_tasks() -> Script:
    return Script(Uncertain(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,)), "values": torch.randn(16)}), adam())


# ---- decisions


class Ppo(nn.Module):
    """The clipped surrogate of PPO with a clipped value loss and an entropy bonus, by torch.distributions."""

    def __init__(self, continuous: bool = False) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, 4), nn.Linear(32, 1)
        self.continuous = continuous
        self.log_std = nn.Parameter(torch.zeros(4)) if continuous else None

    def forward(self, states: Tensor, actions: Tensor, old: Tensor, advantages: Tensor, returns: Tensor, values: Tensor) -> dict[str, Tensor]:
        from torch.distributions import Categorical, Normal

        h = self.trunk(states)
        if self.continuous:
            policy = Normal(self.policy(h), self.log_std.exp(), validate_args=False)
            logp, entropy = policy.log_prob(actions).sum(-1), policy.entropy().sum(-1)
        else:
            policy = Categorical(logits=self.policy(h), validate_args=False)
            logp, entropy = policy.log_prob(actions), policy.entropy()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(logp - old)
        surrogate = torch.min(ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages).mean()
        found = self.value(h).squeeze(-1)
        clipped = values + (found - values).clamp(-0.2, 0.2)
        error = torch.max((found - returns) ** 2, (clipped - returns) ** 2).mean()
        return {"loss": -surrogate + 0.25 * error - 0.01 * entropy.mean()}


def rollout(continuous: bool) -> dict[str, Tensor]:
    actions = torch.randn(32, 4) if continuous else torch.randint(0, 4, (32,))
    return {"states": torch.randn(32, 8), "actions": actions, "old": torch.randn(32) * 0.1 - (5.0 if continuous else 1.4), "advantages": torch.randn(32),
            "returns": torch.randn(32), "values": torch.randn(32)}  # fmt: skip


@script
def ppo_discrete() -> Script:
    return Script(Ppo(), draw(lambda: rollout(False)), adam(3e-4), clip_norm=0.5)


@script
def ppo_continuous() -> Script:
    return Script(Ppo(True), draw(lambda: rollout(True)), adam(3e-4), clip_norm=0.5)


class Dqn(nn.Module):
    """Double DQN with duelling heads; the target network's values come under no_grad."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk, self.value, self.advantage = nn.Linear(8, 32), nn.Linear(32, 1), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = F.relu(self.trunk(x))
            advantage = self.advantage(h)
            return self.value(h) + advantage - advantage.mean(1, keepdim=True)

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = self.Net(), self.Net()
        self.target.requires_grad_(False)

    def forward(self, states: Tensor, actions: Tensor, rewards: Tensor, after: Tensor, done: Tensor) -> dict[str, Tensor]:
        q = self.online(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.online(after).argmax(1, keepdim=True)
            wanted = rewards + 0.99 * (1 - done) * self.target(after).gather(1, best).squeeze(1)
        return {"loss": F.smooth_l1_loss(q, wanted)}


@script
def double_dqn() -> Script:
    return Script(Dqn(), draw(lambda: {"states": torch.randn(32, 8), "actions": torch.randint(0, 4, (32,)), "rewards": torch.randn(32),
                                       "after": torch.randn(32, 8), "done": (torch.rand(32) < 0.1).float()}),
                  lambda m: torch.optim.RMSprop(m.online.parameters(), lr=1e-3))  # fmt: skip


class SacActor(nn.Module):
    """The actor of SAC: a squashed Gaussian by its own noise, two frozen critics, the temperature learned beside."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
        self.critics = nn.ModuleList([nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(2)]).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(()))

    def forward(self, states: Tensor, noise: Tensor) -> dict[str, Tensor]:
        mean, log_std = self.actor(states).chunk(2, -1)
        log_std = torch.clamp(log_std, -20, 2)
        raw = mean + log_std.exp() * noise
        action = torch.tanh(raw)
        logp = (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1)
        both = torch.cat([states, action], -1)
        value = torch.min(self.critics[0](both), self.critics[1](both)).squeeze(-1)
        actor = (self.log_alpha.exp().detach() * logp - value).mean()
        return {"loss": actor - (self.log_alpha.exp() * (logp.detach() - 4)).mean()}


@script
def sac_actor() -> Script:
    return Script(SacActor(), draw(lambda: {"states": torch.randn(32, 8), "noise": torch.randn(32, 4)}), adam(3e-4))
