/** Components that all pages share. */
import { type ComponentChildren, isValidElement } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { plural } from '../kube/text.ts';

type Tone = 'ok' | 'bad' | 'warn' | 'plain';

/** A short colored word. Its meaning does not depend on the color. */
export function Chip({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`chip ${tone}`}>{children}</span>;
}

interface HeaderProps {
  readonly title: string;
  readonly children?: ComponentChildren;
}

/** The page header and its controls. */
export function Header({ title, children }: HeaderProps) {
  return (
    <header class="page-header">
      <svg class="logo" viewBox="0 0 24 24" width="28" height="28" aria-hidden="true">
        <path d="M4 22V9a8 8 0 0 1 16 0v13M8 22V4.5M12 22V3M16 22V4.5M4 10h16M4 15h16" />
      </svg>
      <h1>{title}</h1>
      {children}
    </header>
  );
}

interface SectionProps {
  readonly title: string;
  /** ID for links. */
  readonly id?: string;
  /** One sentence below the title. */
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Section({ title, id, note, children }: SectionProps) {
  return (
    <section aria-label={title}>
      <h2 id={id} tabIndex={id === undefined ? undefined : -1}>
        {title}
      </h2>
      {note !== undefined && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

interface ScrollRegionProps {
  /** The accessible name. */
  readonly label: string;
  readonly children: ComponentChildren;
}

/**
 * Hints by the direction in which the content continues. At the end of the content, an empty line takes the place of
 * the hint.
 */
const SCROLL_HINTS = {
  right: 'Scroll sideways to see all columns →',
  down: 'Scroll down to see all rows ↓',
  end: '\u00a0',
};

/**
 * A region that scrolls if its content is too wide or too tall. In that case, the region can receive focus and shows a
 * hint.
 */
function ScrollRegion({ label, children }: ScrollRegionProps) {
  const region = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<keyof typeof SCROLL_HINTS>();
  const update = (): void => {
    if (!region.current) return;
    const { scrollWidth, clientWidth, scrollLeft, scrollHeight, clientHeight, scrollTop } = region.current;
    const [width, height] = [scrollWidth - clientWidth, scrollHeight - clientHeight];
    const end = width > 1 || height > 1 ? 'end' : undefined;
    setState(width - scrollLeft > 1 ? 'right' : height - scrollTop > 1 ? 'down' : end);
  };
  useEffect(() => {
    const observer = new ResizeObserver(update);
    for (const element of [region.current, region.current?.firstElementChild]) if (element) observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <>
      {state && <p class="scroll-hint">{SCROLL_HINTS[state]}</p>}
      <div
        class={`scroll ${state ?? ''}`}
        ref={region}
        onScroll={update}
        tabIndex={state && 0}
        role="region"
        aria-label={label}
      >
        {children}
      </div>
    </>
  );
}

interface TableProps {
  readonly caption: string;
  readonly head: readonly string[];
  /** A `td` element becomes the cell itself. Any other value becomes the cell's content. */
  readonly rows: readonly (readonly ComponentChildren[])[];
  /** Class of the table. With `wide`, columns that contain sentences remain readable on narrow screens. */
  readonly kind?: 'wide' | 'heat-map';
  /** False if the order of the rows is meaningful. */
  readonly isSortable?: boolean;
  /** Number of rows shown initially, and the noun for the rows. */
  readonly limit?: readonly [limit: number, noun: string, isNeeded?: boolean];
  /** The text to show instead of a table that has no rows. */
  readonly empty?: string;
}

/** Compares strings that contain numbers, such as `9 workloads` and `10 workloads`. */
const { compare: compareTexts } = new Intl.Collator('en', { numeric: true });

/**
 * A table that scrolls sideways on narrow screens and can be sorted by its column headers. The first cell in each row
 * is the row's header.
 */
export function Table({ caption, head, rows, kind, isSortable = true, limit = [Infinity, ''], empty }: TableProps) {
  const [sort, setSort] = useState<{ readonly column: number; readonly direction: 1 | -1 }>();
  const sorted = sort
    ? rows.toSorted((a, b) => sort.direction * compareTexts(textContent(a[sort.column]), textContent(b[sort.column])))
    : rows;
  const { shown, more } = useLimit(sorted, ...limit);
  const toggle = (column: number): void =>
    setSort({ column, direction: sort?.column === column && sort.direction === 1 ? -1 : 1 });
  if (rows.length === 0 && empty !== undefined) return <p class="empty">{empty}</p>;
  return (
    <>
      <ScrollRegion label={caption}>
        <table class={kind}>
          <thead>
            <tr>
              {head.map((title, column) => {
                const direction = sort?.column === column ? sort.direction : undefined;
                return (
                  <th scope="col" aria-sort={direction && (direction === 1 ? 'ascending' : 'descending')}>
                    {isSortable ? (
                      <button type="button" class="sort" onClick={() => toggle(column)}>
                        {title}
                        <span aria-hidden="true">{direction && (direction === 1 ? ' ▲' : ' ▼')}</span>
                      </button>
                    ) : (
                      title
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {shown.map(([first, ...cells]) => (
              <tr>
                <th scope="row">{first}</th>
                {cells.map((cell) => (isValidElement(cell) && cell.type === 'td' ? cell : <td>{cell}</td>))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {more}
    </>
  );
}

/** Returns the text in elements. For components, this is the text in their children. */
function textContent(children: ComponentChildren): string {
  if (Array.isArray(children)) return children.map(textContent).join('');
  if (isValidElement(children)) return textContent((children.props as { children?: ComponentChildren }).children);
  return typeof children === 'string' || typeof children === 'number' ? String(children) : '';
}

/** A command, and a button that copies it. */
export function CopyableCommand({ text }: { readonly text: string }) {
  const [label, setLabel] = useState('Copy');
  const copy = async (): Promise<void> => {
    // If writing to the clipboard is not permitted, the user can still select the command.
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setLabel(isCopied ? 'Copied' : 'Cannot copy');
    setTimeout(() => setLabel('Copy'), 2000);
  };
  return (
    <span class="command">
      <code>{text}</code>{' '}
      <button type="button" class="copy" aria-label={`${label}: ${text}`} onClick={() => void copy()}>
        {label}
      </button>
    </span>
  );
}

/** Offers a text as a file download. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Shows the first items of a long list, or all items if the user requests them or a link refers to one of them. */
export function useLimit<T>(items: readonly T[], limit: number, noun: string, isNeeded = false) {
  const [isComplete, setComplete] = useState(false);
  const shown = isComplete || isNeeded ? items : items.slice(0, limit);
  const more = shown.length < items.length && (
    <button type="button" class="more" onClick={() => setComplete(true)}>
      Show all {items.length.toLocaleString('en')} {noun}
    </button>
  );
  return { shown, more };
}

/** Formats a count as `1 workload` or `2 workloads`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${plural(number, noun)}`;
}

interface TileProps {
  readonly title: string;
  readonly value: number;
  readonly note: string;
  /** True if any value other than zero is a problem. */
  readonly isBad?: boolean;
}

/** A number with a title. */
export function Tile({ title, value, note, isBad = false }: TileProps) {
  return (
    <div class={`tile ${isBad ? (value > 0 ? 'bad' : 'ok') : ''}`}>
      <dt>{title}</dt>
      <dd>
        <strong>{value.toLocaleString('en')}</strong>
        <span class="note">{note}</span>
      </dd>
    </div>
  );
}

interface WorkloadNameProps {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
}

export function workloadName({ namespace, kind, name }: WorkloadNameProps) {
  return (
    <>
      <span class="kind">{kind}</span> {namespace}/{name}
    </>
  );
}

/** Page state in a URL fragment. */
interface FragmentState {
  /** ID of the element to show. */
  readonly at?: string;
}

/** Returns the state in the URL. Scrolls to the element to which a link refers, and focuses it. */
export function useFragment<T extends FragmentState>(parse: (fragment: string) => T, format: (state: T) => string) {
  const [state, setState] = useState(() => parse(location.hash));
  useEffect(() => {
    const read = (): void => setState(parse(location.hash));
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  useEffect(() => {
    const target = state.at === undefined ? null : document.getElementById(state.at);
    target?.focus();
    target?.scrollIntoView();
  }, [state]);
  const replace = (next: T): void => {
    history.replaceState(null, '', format(next));
    setState(next);
  };
  return [state, replace] as const;
}

/** Returns the data in the page, or `undefined` if there is none. */
export async function readData<T>(): Promise<T | undefined> {
  const base64 = document.getElementById('data')?.textContent;
  return base64 == null ? undefined : await unpack<T>(base64);
}

/** Decompresses data that `renderPage` compressed. */
async function unpack<T>(base64: string): Promise<T> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return (await new Response(stream).json()) as T;
}

/** Opens all details before the page is printed, so the printed page contains them. */
export function openDetailsForPrint(): void {
  addEventListener('beforeprint', () => {
    for (const details of document.querySelectorAll('details')) details.open = true;
  });
}

/** Verdicts on workloads, with their text and color. */
export const VERDICT_CHIPS = {
  deniedNow: ['denied now', 'bad'],
  wouldBeDenied: ['would be denied', 'warn'],
  restart: ['to restart', 'plain'],
} as const;

/**
 * Returns the class for a number, or for an unknown number. The color scale is logarithmic, with steps for 1, 2 to 6, 7
 * to 19, and more.
 */
export function heatClass(number: number | undefined): string {
  return number === undefined ? 'unknown' : `heat-${Math.min(4, Math.ceil(Math.log(number + 1)))}`;
}

interface SelectProps {
  readonly title: string;
  readonly name: string;
  readonly value: string | undefined;
  /** Text of the option without a value. */
  readonly none: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  onSelect(value: string | undefined): void;
}

/** A labeled selection list. */
export function Select({ title, name, value = '', none, options, onSelect }: SelectProps) {
  return (
    <label>
      {title}{' '}
      <select name={name} value={value} onChange={({ currentTarget }) => onSelect(currentTarget.value || undefined)}>
        <option value="">{none}</option>
        {options.map(([option, text]) => (
          <option value={option}>{text}</option>
        ))}
      </select>
    </label>
  );
}
