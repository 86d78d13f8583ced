"""The page of a run, for people in a terminal and in a notebook."""

from __future__ import annotations

import html


class Page:
    """A run's page, as ``run.web()`` returns it: ``print`` shows the address, a notebook the page.

    The address holds a token: whoever has it, and reaches this machine, sees the run and can pause
    this peer. A notebook that is saved with its output has it too; it is worth nothing without the
    peer. On another machine: ``ssh -L 8470:localhost:8470 machine``, then the same address here.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def __str__(self) -> str:
        return self.address

    def __repr__(self) -> str:
        return f"<the run's page: {self.address}>"

    def _repr_html_(self) -> str:
        address = html.escape(self.address, quote=True)
        return (f'<p><a href="{address}" target="_blank" rel="noopener">The run\'s page</a></p>'
                f'<iframe src="{address}" title="The run\'s page" width="100%" height="720" '
                'style="border: 1px solid #8884; border-radius: 6px"></iframe>')
