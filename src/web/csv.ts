/** Formats rows as CSV (RFC 4180). Escapes cells so that spreadsheets do not run formulas in them. */
export function formatCsv(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  return [header.join(','), ...rows.map((row) => row.map(formatCell).join(','))].map((line) => `${line}\r\n`).join('');
}

function formatCell(value: string | number): string {
  const text = String(value)
    .replace(/^[=+\-@\t\r]/, "'$&")
    .replaceAll('"', '""');
  return `"${text}"`;
}
