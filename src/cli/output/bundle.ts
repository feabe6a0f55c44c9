/** Bundles the `src/web` pages from source. The build replaces this module with the bundled pages. */
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** Script and style sheet of a page. */
export interface PageBundle {
  readonly script: string;
  readonly style: string;
  /** The bundled source files. */
  readonly inputs: readonly string[];
}

export async function bundlePage(name: 'fleet' | 'playground' | 'report'): Promise<PageBundle> {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL(`../../web/${name}.tsx`, import.meta.url))],
    bundle: true,
    outdir: '.',
    write: false,
    metafile: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'silent',
  });
  const text = (extension: string): string => outputFiles.find(({ path }) => path.endsWith(extension))?.text ?? '';
  return { script: text('.js'), style: text('.css'), inputs: Object.keys(metafile.inputs) };
}
