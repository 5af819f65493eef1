"""`vitrail` on the command line: one thin file a verb, errors of the user in one line with exit code 2."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from cyclopts import App, CycloptsError, UnknownOptionError

from vitrail.cli import (
    bench,
    cascade,
    check,
    evaluate,
    explain,
    export,
    import_weights,
    models,
    predict,
    pretrain,
    runs,
    studio,
    train,
)
from vitrail.cli.chosen import ALIASES
from vitrail.cli.words import PER_TASK, Known, given_options, one_line, plain_name, spell_words
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.version import __version__

EPILOGUE = """Examples:

  vitrail check images/                           what is wrong with my data? and how to train on it
  vitrail train --data digits                     train on the built-in digits
  vitrail train --data images/ --minutes 10       train on a folder, one subfolder for each class
  vitrail predict runs/classify/digits a.png      what is it?
  vitrail explain runs/classify/digits a.png --out look/     and why? a page of maps and figures
  vitrail train --task translate --data pairs/    train.de and train.en: learn to translate
  vitrail translate runs/translate/pairs "..."    and do it
  vitrail train --task language --data book.txt   learn to write
  vitrail complete runs/language/book "It was"    and go on with a text
  vitrail pretrain --method igpt --data digits    learn from pixels alone
  vitrail complete runs/igpt/digits a.png --out finished/    and finish the lower half of images
  vitrail train --task restore --data photos/ --degrade sr2    learn to enlarge images
  vitrail restore runs/restore/photos a.png       and do it
  vitrail import google/vit-base-patch16-224 --out models/vit    weights from elsewhere
  vitrail bench runs/classify/digits              how fast is it? by every engine
  vitrail export runs/classify/digits --format onnx          a file for other runtimes
  vitrail models "vit*"                           what can be built
"""

app = App(
    name="vitrail",
    help="Vision transformers: train one on your images, see what it does, use it.",
    version=__version__,
    version_flags=["--version"],
    help_epilogue=EPILOGUE,
    help_format="plaintext",
    result_action="return_value",
)


VERBS: dict[str, Any] = {"eval": evaluate, "explain": explain}


def add_task_commands(app: App, task: str | None, verbs: Sequence[str] = PER_TASK) -> None:
    """Verbs whose options are those of a task; without one, those that all tasks share."""
    trained: dict[Literal["train", "pretrain"], str] = {"train": train.EXAMPLES, "pretrain": pretrain.EXAMPLES}
    for verb, examples in trained.items():
        if verb in verbs:
            found = train.command_for(verb, task)
            if verb == "pretrain" and task is None:
                found.__doc__ = pretrain.ABOUT
            app.command(found, name=verb, help_epilogue=train.epilogue(verb, task, examples))
    for name in (name for name in verbs if name in VERBS):
        app.command(VERBS[name].command_for(task), name=name, help_epilogue=VERBS[name].EXAMPLES)
    for name in (name for name in verbs if name == "predict" or (name in ALIASES and task in (None, *ALIASES[name]))):
        app.command(predict.command_for(task, name), name=name, help_epilogue=predict.examples_of(name))


add_task_commands(app, None)
app.command(cascade.cascade, name="cascade", help_epilogue=cascade.EXAMPLES)
app.command(export.export, name="export", help_epilogue=export.EXAMPLES)
app.command(check.check, name="check", help_epilogue=check.EXAMPLES)
app.command(bench.bench, name="bench", help_epilogue=bench.EXAMPLES)
app.command(runs.runs, name="runs", help_epilogue=runs.EXAMPLES)
app.command(studio.studio, name="studio", help_epilogue=studio.EXAMPLES)
app.command(import_weights.import_weights, name="import", help_epilogue=import_weights.EXAMPLES)
app.command(models.models, name="models", help_epilogue=models.EXAMPLES)


def main(words: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(list(sys.argv[1:] if words is None else words)))


def run(words: list[str]) -> int:
    """The exit code of a command line. `--debug` anywhere shows the traceback of a user's error too."""
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    known: Known | None = None
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_plainly(warnings.showwarning)
            known = Known(words[0], words[1:]) if words else None
            plain = spell_words(words, known)
            command, bound, unparsed = app_for(words, known).parse_args(plain, exit_on_error=False, print_error=False)
            extra = {"given": given_options(plain)} if "given" in unparsed else {}
            found = command(*bound.args, **bound.kwargs, **extra)
        sys.stdout.flush()  # here, where a broken pipe is expected
        return found if isinstance(found, int) else 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except UnknownOptionError as error:
        name = plain_name(str(error.token.keyword or error.token.value))
        assert known is not None
        print(f"vitrail: {one_line(str(known.refuse(name)))}", file=sys.stderr)
        return 2
    except (CycloptsError, VitrailError, OSError) as error:  # OSError: a folder that cannot be made, a full disk
        if debug:
            traceback.print_exc()
        print(f"vitrail: {one_line(str(error))}", file=sys.stderr)
        return 2


def app_for(words: list[str], known: Known | None = None) -> App:
    """The commands, with the options of the task that these words are about."""
    if not words or words[0] not in PER_TASK:
        return app
    known = known or Known(words[0], words[1:])
    if known.task is None:
        return app
    found = App(name="vitrail", version=__version__, help_format="plaintext", result_action="return_value")
    add_task_commands(found, known.task, (known.verb,))
    return found


def show_plainly(otherwise: Callable[..., None]) -> Callable[..., None]:
    """How warnings are shown: ours as a line, those of others as they were."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, VitrailWarning):
            print(f"vitrail: {one_line(str(message))}", file=sys.stderr)
        else:
            otherwise(message, category, *place, **more)

    return show


if __name__ == "__main__":
    main()
