/** The playground, which shows manifests and the decisions on them. The decisions are computed in the page. */
import { render } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { FixedText } from '../config/fix.ts';
import { manifestName } from '../config/objects.ts';
import type { Position } from '../config/yaml.ts';
import { type Level, LEVELS, newestVersion, parseVersion, type Version } from '../policy/pss/index.ts';
import { describeFit } from '../policy/scc/index.ts';
import { createEditor, type Editor, type Marker } from './editor.ts';
import {
  type EvaluatedObject,
  evaluateManifests,
  type ManifestEvaluation,
  type LocatedViolation,
  fixManifests,
  type SccResult,
} from './evaluate.ts';
import { EXAMPLES } from './examples.ts';
import { decodeState, encodeState, openManifest, type SharedState } from './share.ts';
import { Chip, count, Header, Table, useLimit } from './ui.tsx';
import './style.css';

const NEWEST_MINOR = Number(newestVersion.slice('v1.'.length));
const VERSIONS: readonly Version[] = [
  'latest',
  ...Array.from({ length: NEWEST_MINOR }, (_, index) => `v1.${NEWEST_MINOR - index}` as const),
];

/** Delay between typing and evaluation. */
const DELAY_MS = 150;

interface Props {
  readonly initial: SharedState;
  readonly problem: string | undefined;
}

function Playground({ initial, problem: initialProblem }: Props) {
  const [text, setText] = useState(initial.text);
  const [level, setLevel] = useState(initial.level);
  const [version, setVersion] = useState(initial.version);
  const [message, setMessage] = useState(initialProblem);
  const [fixed, setFixed] = useState<FixedText>();
  const editor = useRef<Editor>(undefined);
  const evaluated = useDelayed(text);
  const evaluation = useMemo(() => evaluateManifests(evaluated, version), [evaluated, version]);

  const attach = (host: HTMLElement | null): void => {
    if (host && !editor.current) editor.current = createEditor(host, { text, onChange: setText });
  };
  useEffect(() => editor.current?.setMarkers(findMarkers(evaluation, level)), [evaluation, level]);
  const replace = (next: string): void => {
    editor.current?.setText(next);
    setMessage(undefined);
    setFixed(undefined);
  };
  const fix = (): void => {
    const result = fixManifests(text, { level, version });
    replace(result.text);
    setFixed(result);
  };
  const open = async (files: Iterable<File>): Promise<void> => {
    const texts = await Promise.all(Array.from(files, (file) => file.text()));
    if (texts.length > 0) replace(texts.join('\n---\n'));
  };

  return (
    <div
      class="playground"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void open(event.dataTransfer?.files ?? []);
      }}
    >
      <Header title="Portcullis playground">
        <Controls
          version={version}
          onVersion={setVersion}
          onText={replace}
          onFiles={(files) => void open(files)}
          onShare={() => void share({ text, level, version }).then(setMessage)}
        />
      </Header>
      <Message text={message} />
      <main class="panes">
        <div class="editor" ref={attach} />
        <div class="results">
          <LevelPicker evaluation={evaluation} level={level} onPick={setLevel} />
          <FixButton evaluation={evaluation} level={level} onFix={fix} />
          {fixed && <FixResult result={fixed} />}
          <Results evaluation={evaluation} level={level} goTo={(position) => editor.current?.goTo(position)} />
        </div>
      </main>
    </div>
  );
}

/** Writes the state to the page's URL. Resolves to a message for the user. */
async function share(state: SharedState): Promise<string> {
  history.replaceState(null, '', `${location.pathname}${await encodeState(state)}`);
  const isCopied = await navigator.clipboard?.writeText(location.href).then(
    () => true,
    () => false,
  );
  return isCopied ? 'The link was copied. It contains the manifests.' : 'The URL of this page contains the manifests.';
}

interface ControlsProps {
  readonly version: Version;
  onVersion(version: Version): void;
  onText(text: string): void;
  onFiles(files: Iterable<File>): void;
  onShare(): void;
}

function Controls({ version, onVersion, onText, onFiles, onShare }: ControlsProps) {
  return (
    <div class="controls">
      <label>
        Example{' '}
        <select
          onChange={({ currentTarget }) => {
            const example = EXAMPLES[currentTarget.selectedIndex - 1];
            if (example) onText(example.text);
            currentTarget.selectedIndex = 0;
          }}
        >
          <option>Choose</option>
          {EXAMPLES.map(({ title }) => (
            <option>{title}</option>
          ))}
        </select>
      </label>
      <label>
        Version{' '}
        <select
          value={version}
          onChange={({ currentTarget }) => onVersion(parseVersion(currentTarget.value) ?? 'latest')}
        >
          {VERSIONS.map((choice) => (
            <option value={choice}>{choice === 'latest' ? `latest (${newestVersion})` : choice}</option>
          ))}
        </select>
      </label>
      <label class="button">
        Open files
        <input
          type="file"
          class="hidden"
          accept=".yaml,.yml,.json"
          multiple
          onChange={({ currentTarget }) => onFiles(currentTarget.files ?? [])}
        />
      </label>
      <button type="button" onClick={onShare}>
        Share
      </button>
    </div>
  );
}

function Message({ text }: { readonly text: string | undefined }) {
  if (text === undefined) return null;
  return (
    <p class="message" role="status">
      {text}
    </p>
  );
}

interface FixProps {
  readonly evaluation: ManifestEvaluation;
  readonly level: Level;
  onFix(): void;
}

function FixButton({ evaluation, level, onFix }: FixProps) {
  if (level === 'privileged' || evaluation.objects.every(({ findings }) => findings[level].length === 0)) return null;
  return (
    <button type="button" class="primary" onClick={onFix}>
      Fix for {level}
    </button>
  );
}

function useDelayed<T>(value: T): T {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), DELAY_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}

/** Returns markers for the findings at a level, the fields that the closest SCC does not allow, and the errors. */
function findMarkers({ objects, errors }: ManifestEvaluation, level: Level): readonly Marker[] {
  return [
    ...errors.map(({ line, column, message }) => ({ line, column, message, severity: 'error' as const })),
    ...objects.flatMap(({ findings, scc }) => [
      ...findings[level].flatMap((finding) =>
        finding.fields.map(({ line, column, path }) => {
          const message = `${level}: ${path}: ${finding.reason}. ${finding.fix}`;
          return { line, column, message, severity: 'error' as const };
        }),
      ),
      ...scc.fields.map(({ line, column, path }) => {
        return { line, column, message: `SCC: ${path}: ${scc.reasons.join('; ')}`, severity: 'warning' as const };
      }),
    ]),
  ];
}

const LEVEL_TITLES: Readonly<Record<Level, string>> = {
  privileged: 'Privileged',
  baseline: 'Baseline',
  restricted: 'Restricted',
};

interface LevelPickerProps {
  readonly evaluation: ManifestEvaluation;
  readonly level: Level;
  onPick(level: Level): void;
}

/** Shows the verdict for each level. The verdicts are radio buttons that select the level of the findings. */
function LevelPicker({ evaluation: { objects }, level, onPick }: LevelPickerProps) {
  return (
    <fieldset class="levels">
      <legend class="hidden">Level</legend>
      {LEVELS.map((choice) => {
        const denied = objects.filter(({ findings }) => findings[choice].length > 0).length;
        return (
          <label class={denied > 0 ? 'bad' : 'ok'}>
            <input type="radio" name="level" checked={choice === level} onChange={() => onPick(choice)} />
            <span class="level">{LEVEL_TITLES[choice]}</span>
            <span class="verdict">
              {objects.length === 0
                ? 'no pods'
                : denied === 0
                  ? '✓ admitted'
                  : `✗ ${denied} of ${objects.length} denied`}
            </span>
          </label>
        );
      })}
    </fieldset>
  );
}

/** Describes how many fields the fix changed, and which findings the user must resolve. */
function FixResult({ result: { changes, unfixed } }: { readonly result: FixedText }) {
  const notes = new Set([
    ...changes.flatMap(({ note }) => (note === undefined ? [] : `Verify: ${note}.`)),
    ...unfixed.map(({ object, check, detail, choices }) => {
      const name = manifestName(object.value);
      return `${object.kind} ${name}: ${check} is not fixed (${detail}). Choices: ${choices.join('; ')}.`;
    }),
  ]);
  return (
    <div class="fixed" role="status">
      <h2>{count(changes.length, 'field')} changed</h2>
      <ul class="plain">
        {Array.from(notes, (note) => (
          <li>{note}</li>
        ))}
      </ul>
    </div>
  );
}

interface ResultsProps {
  readonly evaluation: ManifestEvaluation;
  readonly level: Level;
  goTo(position: Position): void;
}

/** Number of objects shown initially. */
const MAX_OBJECTS = 50;

function Results({ evaluation, level, goTo }: ResultsProps) {
  const { objects, otherKinds, errors } = evaluation;
  const { shown, more } = useLimit(objects, MAX_OBJECTS, 'objects');
  return (
    <div aria-live="polite">
      {errors.map((error) => (
        <p class="error">
          <PositionLink position={error} goTo={goTo} /> {error.message}
        </p>
      ))}
      {objects.length + errors.length === 0 && (
        <p class="note">
          {otherKinds > 0
            ? 'No object creates pods.'
            : 'Paste manifests, drop files on the page, or choose an example.'}
        </p>
      )}
      {shown.map((object) => (
        <ObjectResult object={object} level={level} goTo={goTo} />
      ))}
      {more}
    </div>
  );
}

interface PositionLinkProps {
  readonly position: Position;
  readonly path?: string;
  goTo(position: Position): void;
}

function PositionLink({ position, path, goTo }: PositionLinkProps) {
  return (
    <button type="button" class="link" title={path} onClick={() => goTo(position)}>
      line {position.line}
    </button>
  );
}

interface ObjectProps {
  readonly object: EvaluatedObject;
  readonly level: Level;
  goTo(position: Position): void;
}

function ObjectResult({ object, level, goTo }: ObjectProps) {
  const { kind, namespace, name, findings, scc } = object;
  const violations = findings[level];
  return (
    <article class="card">
      <h2>
        <span class="kind">{kind}</span> {namespace}/{name || '(no name)'}{' '}
        <Chip tone={violations.length > 0 ? 'bad' : 'ok'}>{violations.length > 0 ? 'denied' : 'admitted'}</Chip>
      </h2>
      {violations.length > 0 && (
        <ul class="findings">
          {violations.map((finding) => (
            <FindingItem finding={finding} goTo={goTo} />
          ))}
        </ul>
      )}
      <SccItem result={scc} goTo={goTo} />
    </article>
  );
}

/** Maximum number of fields shown for a finding. */
const MAX_FIELDS = 20;

function FindingItem({ finding, goTo }: { readonly finding: LocatedViolation; goTo(position: Position): void }) {
  const { check, reason, detail, fix, fields } = finding;
  return (
    <li>
      <strong>{check}</strong> <FieldLinks fields={fields} goTo={goTo} />
      <p>{detail || reason}</p>
      <p class="note">{fix}</p>
    </li>
  );
}

function FieldLinks({ fields, goTo }: { readonly fields: LocatedViolation['fields']; goTo(position: Position): void }) {
  const rest = fields.length - MAX_FIELDS;
  return (
    <span class="positions">
      {fields.slice(0, MAX_FIELDS).map((field) => (
        <PositionLink position={field} path={field.path} goTo={goTo} />
      ))}
      {rest > 0 && `and ${count(rest, 'more field')}`}
    </span>
  );
}

function SccItem({ result, goTo }: { readonly result: SccResult; goTo(position: Position): void }) {
  const { verdict, sccs, reasons, fields } = result;
  if (verdict.outcome === 'ignored') return <p class="note">{reasons}</p>;
  const isDenied = verdict.outcome === 'denied';
  const changes = isDenied ? [] : verdict.changes;
  return (
    <div class="scc">
      <h3>
        SCC admission <Chip tone={isDenied ? 'bad' : 'ok'}>{isDenied ? 'denied' : verdict.scc}</Chip>{' '}
        <FieldLinks fields={fields} goTo={goTo} />
      </h3>
      {reasons.map((reason) => (
        <p>{reason}</p>
      ))}
      {changes.length > 0 && (
        <details>
          <summary>{count(changes.length, 'field')} set by the SCC</summary>
          <ul class="code">
            {changes.map(({ path, after }) => (
              <li>{`${path}: ${JSON.stringify(after)}`}</li>
            ))}
          </ul>
        </details>
      )}
      {sccs.length > 0 && (
        <details>
          <summary>{count(sccs.length, 'SCC')} in the order of evaluation</summary>
          <Table
            caption="SCCs in evaluation order"
            kind="wide"
            head={['SCC', 'Usable by', 'Fits', 'Reasons']}
            rows={sccs.map((scc) => {
              const { fits, reasons } = describeFit(scc);
              return [scc.name, scc.usableBy.join(', ') || '-', fits, reasons.join('; ')];
            })}
          />
        </details>
      )}
    </div>
  );
}

const INITIAL: SharedState = { text: EXAMPLES[0].text, level: 'restricted', version: 'latest' };

/**
 * Returns the state in the link, which consists of the manifests in its fragment or the file in its `manifest`
 * parameter.
 */
async function readLink(): Promise<SharedState | { readonly problem: string }> {
  if (location.hash !== '') return await decodeState(location.hash);
  const file = new URLSearchParams(location.search).get('manifest');
  if (file === null) return INITIAL;
  const text = await openManifest(file, location.href);
  return typeof text === 'string' ? { ...INITIAL, text } : text;
}

async function start(): Promise<void> {
  const shared = await readLink();
  const isShared = !('problem' in shared);
  const root = document.getElementById('app');
  if (root)
    render(<Playground initial={isShared ? shared : INITIAL} problem={isShared ? undefined : shared.problem} />, root);
}

addEventListener('hashchange', () => location.reload());
void start();
