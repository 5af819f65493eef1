"""Counting objects in files: `vitrail predict`, `vt.pipeline("object-counting")`, `vitrail export`."""

import torch

from vitrail.data.transforms import prepare
from vitrail.deploy import pipeline
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.image_source import open_image
from vitrail.deploy.pipeline import Inputs


class Pipeline(pipeline.Pipeline):
    def read(self, source):
        return open_image(source, self.model.preprocessing.size)

    def prepare(self, samples):
        return [Inputs(samples, prepare(list(samples), self.model.preprocessing))]

    def forward(self, inputs, options, progress):
        with torch.inference_mode():
            return self.model(inputs.batch)

    def postprocess(self, outputs, sample, options):
        return [{"count": float(outputs[0])}]

    def describe(self, found, files, *, width):
        return f"{found.source!s:<{width}}  {found.result[0]['count']:.1f} objects"

    @staticmethod
    def interface(model):
        return Interface(model, {"counts": "batch, 1"})
