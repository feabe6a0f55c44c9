/** Compares the behavior for the Operator Lifecycle Manager with OpenShift and with the decision table. */
import assert from 'node:assert/strict';
import { suite } from 'node:test';
import type { ClusterServiceVersion, Namespace } from '../../src/kube/types.ts';
import { LABEL_SYNC_LABEL, OLM_MANAGED_ANNOTATION } from '../../src/kube/well-known.ts';
import {
  decideLabeling,
  isCopied,
  type LabelerInput,
  type LabelerTrigger,
  labelingPatch,
} from '../../src/policy/olm/index.ts';
import { UNMANAGED_NAMESPACES } from '../../src/policy/rollout/index.ts';
import { type Area, area, type Case, readCases, testAreas } from '../support/conformance/cases.ts';

type Marks = Readonly<Record<string, string>>;

interface RecordedObject {
  readonly name?: string;
  readonly namespace?: string;
  readonly labels?: Marks;
  readonly annotations?: Marks;
  readonly status?: { readonly reason?: string };
}

interface State {
  readonly label: string | null;
  readonly annotation: string | null;
}

interface TableInput extends State {
  readonly namespace: string;
  readonly nonCopiedCSVs: number;
  readonly trigger: string;
  readonly terminating?: boolean;
}

interface SeedInput extends State {
  readonly namespace: string;
  readonly remainingCSVs: number;
  readonly event: string;
}

interface ShippedInput {
  readonly event: { readonly type: string; readonly object: RecordedObject };
  readonly namespaces: readonly RecordedObject[];
  readonly csvs: readonly RecordedObject[];
  readonly failWrites?: boolean;
}

/** Triggers by recorded event. The trigger of all other events is `resync`. */
const TRIGGERS: Readonly<Record<string, LabelerTrigger>> = {
  csv: 'csv-updated',
  'csv-delete': 'csv-deleted',
  namespace: 'namespace',
  startup: 'startup',
  'csv-created': 'csv-created',
  'csv-deleted': 'csv-deleted',
  'ns-changed': 'namespace',
};

function buildNamespace(name: string, { label, annotation }: State, isTerminating = false): Namespace {
  return {
    metadata: {
      name,
      ...(label === null ? {} : { labels: { [LABEL_SYNC_LABEL]: label } }),
      ...(annotation === null ? {} : { annotations: { [OLM_MANAGED_ANNOTATION]: annotation } }),
      ...(isTerminating ? { deletionTimestamp: '2026-11-22T00:00:00Z' } : {}),
    },
  };
}

function buildCsvs(namespace: string, count: number): readonly ClusterServiceVersion[] {
  return Array.from({ length: count }, (_, index) => ({ metadata: { name: `csv-${index}`, namespace } }));
}

function toObject({ status, ...metadata }: RecordedObject): ClusterServiceVersion {
  return { metadata, ...(status ? { status } : {}) };
}

/** Returns the row, and the label and annotation after the patch. */
function decide(input: Omit<LabelerInput, 'exemptNamespaces'>) {
  const decision = decideLabeling({ ...input, exemptNamespaces: UNMANAGED_NAMESPACES });
  const { labels, annotations } = (labelingPatch(input.namespace, decision)?.['metadata'] ?? {}) as {
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
  const { metadata } = input.namespace;
  const label = { ...metadata?.labels, ...labels }[LABEL_SYNC_LABEL] ?? null;
  const annotation = { ...metadata?.annotations, ...annotations }[OLM_MANAGED_ANNOTATION] ?? null;
  return { row: decision.row, label, annotation };
}

const AREAS: Readonly<Record<string, Area>> = {
  'labeler-table': area<TableInput, State & { readonly row: number }>((input, { row, ...expected }) => {
    const decided = decide({
      mode: 'managed',
      namespace: buildNamespace(input.namespace, input, input.terminating),
      csvs: buildCsvs(input.namespace, input.nonCopiedCSVs),
      triggers: new Set([TRIGGERS[input.trigger] ?? 'resync']),
    });
    assert.deepEqual(decided, { ...expected, row: String(row) });
  }),
  'labeler-seed': area<SeedInput, State>((input, expected) => {
    const { row, ...decided } = decide({
      mode: 'seed',
      namespace: buildNamespace(input.namespace, input),
      csvs: buildCsvs(input.namespace, input.remainingCSVs),
      triggers: new Set([TRIGGERS[input.event] ?? 'resync']),
    });
    assert.equal(row, 'seed');
    assert.deepEqual(decided, expected);
  }),
  // The errors of the upstream controller come from its event handler, for example for a missing namespace, a failed
  // write or another kind of object.
  'labeler-shipped': area<ShippedInput, { readonly labels: Readonly<Record<string, string | null>> }>(
    ({ event, namespaces, csvs, failWrites }, { labels }) => {
      const isCsv = event.type === 'csv';
      const target = isCsv ? event.object.namespace : event.object.name;
      const known = [...csvs, ...(isCsv ? [event.object] : [])].filter(({ namespace }) => namespace === target);
      const states = namespaces.map(({ name = '', ...marks }): readonly [string, string | null] => {
        const label = marks.labels?.[LABEL_SYNC_LABEL] ?? null;
        if (name !== target || failWrites === true) return [name, label];
        const namespace = toObject({ name, ...marks }) as Namespace;
        const triggers = new Set([TRIGGERS[event.type] ?? 'resync']);
        return [name, decide({ mode: 'shipped', namespace, csvs: known.map(toObject), triggers }).label];
      });
      for (const [name, label] of Object.entries(labels)) {
        assert.deepEqual(states.find(([one]) => one === name) ?? [name, null], [name, label]);
      }
    },
  ),
  'csv-copied': area<RecordedObject, { readonly copied: boolean }>((object, { copied }) => {
    assert.equal(isCopied(toObject(object)), copied);
  }),
  'exempt-namespaces': area<{ readonly namespace?: string }, { readonly names?: readonly string[] }>(
    ({ namespace }, { names, ...expected }) => {
      if (names) assert.deepEqual([...UNMANAGED_NAMESPACES].sort(), names);
      else assert.deepEqual({ exempt: UNMANAGED_NAMESPACES.has(namespace ?? '') }, expected);
    },
  ),
};

const cases = readCases<readonly Case[]>('olm/cases.json');

suite('the labels of OLM namespaces agree with the recorded results', () => {
  testAreas(
    cases.filter((one) => Object.hasOwn(AREAS, one.area)),
    AREAS,
  );
});
