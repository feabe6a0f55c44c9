/** Renders a page as a single HTML file that contains its script, style and data, and loads no other files. */
import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import type { PageBundle } from './bundle.ts';

interface PageOptions {
  readonly title: string;
  /** Data of the page, which must be JSON values. */
  readonly data?: unknown;
  /** True for a page that shows live changes from its server. */
  readonly isLive?: boolean;
  /** True for a page that loads files from other sites. */
  readonly opensFiles?: boolean;
}

/**
 * Returns the HTML of a page. Its content security policy permits only this script and this style, identified by their
 * hashes.
 */
export function renderPage(
  { script, style }: PageBundle,
  { title, data, isLive = false, opensFiles = false }: PageOptions,
): string {
  // Escapes closing tags, because a closing tag inside a string would end the script element.
  const safeScript = script.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
  const policy = [
    "default-src 'none'",
    `script-src ${hash(safeScript)}`,
    `style-src ${hash(style)}`,
    // Needed for the page icon and for the underlines in the editor.
    'img-src data:',
    ...(isLive ? ["connect-src 'self'"] : opensFiles ? ['connect-src http: https: data:'] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="app"></div>
${data === undefined ? '' : `<script type="application/octet-stream" id="data">${pack(data)}</script>\n`}<script type="module">${safeScript}</script>
</body>
</html>
`;
}

/**
 * Compresses the data, which is repetitive for large clusters. Base64 text cannot close the element that contains it.
 */
function pack(data: unknown): string {
  return deflateRawSync(JSON.stringify(data)).toString('base64');
}

function hash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
