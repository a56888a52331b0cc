// The console's first lines: the theme, before anything is drawn, and then the frame.
import { html, render } from "../vendor/preact.js";
import { Frame } from "./shell/frame.js";
import { applyTheme } from "./shell/theme.js";

applyTheme();
const host = document.getElementById("console");
host.replaceChildren();
render(html`<${Frame} />`, host);
