/** Components that all pages share. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { plural } from '../kube/text.ts';

type Tone = 'ok' | 'bad' | 'warn' | 'plain';

/** A short colored word, whose meaning does not depend on the color. */
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
  /** One sentence below the title. */
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Section({ title, note, children }: SectionProps) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
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
 * Hints by the direction in which the content continues. At the end of the content, an empty line keeps the hint's space.
 */
const SCROLL_HINTS = {
  right: 'Scroll sideways to see all columns →',
  down: 'Scroll down to see all rows ↓',
  end: '\u00a0',
};

/**
 * A region that scrolls if its content is too wide or too tall. Only in that case can it receive focus and shows a hint.
 */
export function ScrollRegion({ label, children }: ScrollRegionProps) {
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
  readonly rows: readonly (readonly ComponentChildren[])[];
  /** True if cells contain sentences, so the columns remain readable on narrow screens. */
  readonly isWide?: boolean;
}

/** A table that scrolls sideways on narrow screens. The first cell in each row is the row's header. */
export function Table({ caption, head, rows, isWide = false }: TableProps) {
  return (
    <ScrollRegion label={caption}>
      <table class={isWide ? 'wide' : ''}>
        <thead>
          <tr>
            {head.map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([first, ...cells]) => (
            <tr>
              <th scope="row">{first}</th>
              {cells.map((cell) => (
                <td>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** Shows the first items of a long list, and all items on request. */
export function useLimit<T>(items: readonly T[], limit: number, noun: string) {
  const [isComplete, setComplete] = useState(false);
  const shown = isComplete ? items : items.slice(0, limit);
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
