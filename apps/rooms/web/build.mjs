// Bundles the page's script into dist/, with the licences of everything that is in it.
import { readFileSync, writeFileSync, readdirSync } from "node:fs";
import { build } from "esbuild";

const { metafile } = await build({
  entryPoints: ["src/editor.js"],
  outfile: "dist/editor.js",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  banner: { js: "// The licences of what is bundled here: /assets/LICENSES.txt" },
  metafile: true,
});

const packageOf = (file) => file.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1];
const packages = [...new Set(Object.keys(metafile.inputs).map(packageOf))].filter(Boolean).sort();
const licences = packages.map((name) => {
  const dir = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${dir}/package.json`));
  const file = readdirSync(dir).find((file) => /^licen[cs]e/i.test(file));
  const text = file ? readFileSync(`${dir}/${file}`, "utf8").trim() : `No licence file; package.json says: ${license}`;
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync("dist/LICENSES.txt", licences.join(`\n${"-".repeat(80)}\n\n`));
