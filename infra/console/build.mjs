// Bundles the console's third-party parts from the pinned lock: `make console-assets`.
// Writes assets/vendor/*.js, their licences, and manifest.json with size and SHA-256 of each file.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const vendor = join(here, "../../layers/console/python/firn_console/assets/vendor");
const axe = join(here, "../../tests/integration/console/axe.min.js");
const bundles = ["preact", "uplot", "editor"];

const made = await build({
  absWorkingDir: here,
  entryPoints: bundles.map((name) => `entries/${name}.js`),
  outdir: vendor,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none", // LICENSES.txt has the whole texts
  metafile: true,
});
copyFileSync(join(here, "node_modules/uplot/dist/uPlot.min.css"), join(vendor, "uplot.css"));
copyFileSync(join(here, "node_modules/axe-core/axe.min.js"), axe);

const packageOf = (input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
const used = [...new Set(Object.keys(made.metafile.inputs).map(packageOf).filter(Boolean))].sort();
const about = (name) => JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8"));
const licence = (name) => {
  for (const file of ["LICENSE", "LICENSE.md", "LICENSE.txt"]) {
    try {
      return readFileSync(join(here, "node_modules", name, file), "utf8").trim();
    } catch {
      continue;
    }
  }
  throw new Error(`${name} has no licence file`);
};
const texts = used.map((name) => `${name} ${about(name).version} (${about(name).license})\n\n${licence(name)}\n`);
writeFileSync(join(vendor, "LICENSES.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));

const described = (path) => {
  const content = readFileSync(path);
  return { bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") };
};
const files = ["preact.js", "uplot.js", "uplot.css", "editor.js", "LICENSES.txt"];
const manifest = {
  packages: Object.fromEntries(used.map((name) => [name, { version: about(name).version, license: about(name).license }])),
  files: Object.fromEntries(files.map((name) => [name, described(join(vendor, name))])),
  tests: { "axe.min.js": { version: about("axe-core").version, license: about("axe-core").license, ...described(axe) } },
};
writeFileSync(join(here, "manifest.json"), JSON.stringify(manifest, null, 2) + "\n");
