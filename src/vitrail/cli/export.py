"""vitrail export"""

from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks.options import several, whole

EXAMPLES = """Examples:

  vitrail export runs/classify/digits --format onnx
  vitrail export runs/classify/digits --format openvino --out digits.xml
  vitrail export runs/classify/pets --format pt2 --image-size 192 256 --dynamic-size off
  vitrail export runs/classify/pets --format onnx --data pets/test/ --check 64
  vitrail export runs/detect/blood --format openvino
  vitrail export runs/segment3d/heart --format onnx --image-size 64 64 32
  vitrail export runs/classify/pets --format transformers --out pets_for_transformers/
"""


def export(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    /,
    *,
    format: Annotated[str, Parameter(help="onnx, openvino, pt2, safetensors, timm or transformers.")],
    out: Annotated[str | None, Parameter(help="The file, or folder; by default RUN/export/NAME.onnx.")] = None,
    image_size: Annotated[
        tuple[int, ...] | None,
        several("N, or H W, in pixels, of volumes X Y Z; by default the model's own."),
    ] = None,
    opset: Annotated[
        int | None, Parameter(converter=whole, help="Of ONNX: the version of its operators; by default 23.")
    ] = None,
    dynamic_size: Annotated[
        Literal["auto", "on", "off"],
        Parameter(help="Whether it takes images of any size; auto: where the model can. The batch is always free."),
    ] = "auto",
    check: Annotated[
        int, Parameter(converter=whole, help="Compare it with the model on so many images before it is written; 0: do not.")
    ] = 16,
    data: Annotated[
        str | None, Parameter(help="Images for that: a file, a folder, a dataset; by default those the run learned from.")
    ] = None,
) -> int:
    """Write a trained model as a file that other runtimes read, without this library.

    onnx, openvino and pt2 are programs with preprocessing and labels in their metadata; safetensors are the weights alone; timm
    and transformers are folders which those libraries load. A program that answers otherwise than the model is not written.
    """
    from vitrail.run.export import export_run

    lines = export_run(
        run, format, out=out, image_size=image_size, opset=opset, dynamic_size=dynamic_size, check=check, data=data
    )
    print("\n".join(lines))
    return 0
