// The imports of scripts, by the TypeScript compiler: its parser, and its module resolution under the nearest
// tsconfig.json or jsconfig.json. Reads {top, files} as JSON, writes pairs of paths. JavaScript is resolved to scripts
// rather than declarations, as Node does; everything else to whatever the compiler finds.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

const ts = createRequire(import.meta.url)(process.argv[2]);
const { top, files } = JSON.parse(readFileSync(0, "utf8"));
const configs = new Map();
const known = new Set(files);

function configOf(folder) {
  if (configs.has(folder)) return configs.get(folder);
  let found;
  for (const name of ["tsconfig.json", "jsconfig.json"]) {
    const file = path.join(folder, name);
    if (!found && ts.sys.fileExists(file)) {
      const read = ts.readConfigFile(file, ts.sys.readFile);
      found = ts.parseJsonConfigFileContent({ ...read.config, files: [], include: [] }, ts.sys, folder).options;
    }
  }
  if (!found) found = folder === top ? {} : configOf(path.dirname(folder));
  configs.set(folder, found);
  return found;
}

function optionsOf(file) {
  const own = configOf(path.dirname(file));
  const script = /\.[cm]?jsx?$/.test(file);
  const kept = Object.fromEntries(["baseUrl", "paths", "pathsBasePath", "rootDirs", "moduleSuffixes"]
    .filter((key) => own[key] !== undefined).map((key) => [key, own[key]]));
  return {
    ...kept, allowJs: true, noDtsResolution: script, module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler, preserveSymlinks: false,
  };
}

function* imports(node) {
  const text = (one) => (one && ts.isStringLiteralLike(one) ? [one.text] : []);
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) yield* text(node.moduleSpecifier);
  else if (ts.isImportEqualsDeclaration(node) && ts.isExternalModuleReference(node.moduleReference))
    yield* text(node.moduleReference.expression);
  else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) yield* text(node.argument.literal);
  else if (ts.isCallExpression(node) && node.arguments.length > 0) {
    const called = node.expression;
    if (called.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(called) && called.text === "require"))
      yield* text(node.arguments[0]);
  }
}

const edges = [];
for (const file of files) {
  const whole = path.join(top, file);
  const source = ts.createSourceFile(whole, readFileSync(whole, "utf8"), ts.ScriptTarget.Latest, true);
  const options = optionsOf(whole);
  const todo = [source];
  while (todo.length) {
    const node = todo.pop();
    for (const name of imports(node)) {
      const found = ts.resolveModuleName(name, whole, options, ts.sys).resolvedModule;
      const target = found && path.relative(top, found.resolvedFileName);
      if (target && target !== file && known.has(target)) edges.push([file, target]);
    }
    ts.forEachChild(node, (child) => void todo.push(child));
  }
}
console.log(JSON.stringify(edges));
