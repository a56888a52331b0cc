// A line of numbers as small as a word.
import { html } from "../../vendor/preact.js";
import { counted } from "../shell/format.js";

/** `of`: numbers; `label`: what they are, for screen readers. */
export function Sparkline({ of, label, width = 120, height = 24 }) {
  const most = Math.max(1, ...of);
  const step = of.length > 1 ? (width - 2) / (of.length - 1) : 0;
  const points = of.map((value, n) => `${(1 + n * step).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  const total = of.reduce((sum, value) => sum + value, 0);
  if (!points.length) return null;
  return html`<svg class="spark" role="img" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-label=${`${label}: ${counted(total, "event")}, at most ${most === 1 && !total ? 0 : most} in a step`}>
    <polygon points=${`1,${height - 1} ${points.join(" ")} ${width - 1},${height - 1}`} />
    <polyline points=${points.join(" ")} />
  </svg>`;
}
