/**
 * Writes the values of an SCC into a pod, field by field.
 * @see https://github.com/openshift/apiserver-library-go/tree/master/pkg/securitycontextconstraints
 */
import { at, copy, isObject, type JsonObject, listAt, mapAt, textAt, textsAt } from './json.ts';
import type { Provider } from './scc-ranges.ts';

type Changeable = Record<string, unknown>;

export const CONTAINER_LISTS = ['initContainers', 'containers', 'ephemeralContainers'] as const;

const POD_SECCOMP = 'seccomp.security.alpha.kubernetes.io/pod';
const CONTAINER_SECCOMP = 'container.seccomp.security.alpha.kubernetes.io/';

/** Returns a copy of the pod with defaults. */
export function fill(pod: JsonObject, provider: Provider): JsonObject {
  const filled = copy(pod) as Changeable;
  const spec = (isObject(filled['spec']) ? filled['spec'] : {}) as Changeable;
  fillGroups(spec, provider);
  fillPodSeccomp(filled, spec, provider);
  fillSeLinux(spec, provider);
  for (const list of CONTAINER_LISTS) {
    for (const container of listAt(spec, list)) {
      if (isObject(container)) fillContainer(container, spec, filled, provider);
    }
  }
  // A pod always has a spec.
  filled['spec'] = spec;
  return filled;
}

/** Creates the security context only to write a value. */
function write(holder: Changeable, field: string, value: unknown): void {
  if (!isObject(holder['securityContext'])) holder['securityContext'] = {};
  (holder['securityContext'] as Changeable)[field] = value;
}

function remove(holder: Changeable, field: string): void {
  const context = holder['securityContext'];
  if (isObject(context)) Reflect.deleteProperty(context, field);
}

function fillGroups(spec: Changeable, { fsGroup, supplementalGroups }: Provider): void {
  const [fsRange] = fsGroup ?? [];
  if (fsRange && at(spec, 'securityContext', 'fsGroup') === undefined) write(spec, 'fsGroup', fsRange.min);
  const [range] = supplementalGroups ?? [];
  // A webhook treats an empty list as absent.
  if (range && listAt(spec, 'securityContext', 'supplementalGroups').length === 0) {
    write(spec, 'supplementalGroups', [range.min]);
  }
}

export function getAnnotation(field: unknown): string {
  const type = textAt(field, 'type');
  if (type === 'Unconfined') return 'unconfined';
  if (type === 'RuntimeDefault') return 'runtime/default';
  const profile = at(field, 'localhostProfile');
  return type === 'Localhost' && typeof profile === 'string' ? `localhost/${profile}` : '';
}

function getField(annotation: string): JsonObject | undefined {
  if (annotation === 'unconfined') return { type: 'Unconfined' };
  if (annotation === 'runtime/default' || annotation === 'docker/default') return { type: 'RuntimeDefault' };
  const profile = annotation.startsWith('localhost/') ? annotation.slice('localhost/'.length) : '';
  return profile === '' ? undefined : { type: 'Localhost', localhostProfile: profile };
}

/** Does not replace an equal profile, so it keeps its unknown fields. */
function writeSeccomp(holder: Changeable, profile: JsonObject | undefined): void {
  const before = at(holder, 'securityContext', 'seccompProfile');
  const isSame = (field: string): boolean => textAt(before, field) === textAt(profile, field);
  if (profile === undefined) remove(holder, 'seccompProfile');
  else if (before === undefined || !isSame('type') || !isSame('localhostProfile')) {
    write(holder, 'seccompProfile', profile);
  }
}

function fillPodSeccomp(pod: Changeable, spec: Changeable, { scc }: Provider): void {
  const field = at(spec, 'securityContext', 'seccompProfile');
  let value = mapAt(pod, 'metadata', 'annotations').get(POD_SECCOMP) ?? '';
  if (value === '' && field !== undefined) value = getAnnotation(field);
  else if (value === '') value = textsAt(scc, 'seccompProfiles').find((profile) => profile !== '*') ?? '';
  if (value === '') return;
  annotate(pod, POD_SECCOMP, value);
  writeSeccomp(spec, getField(value));
}

/** Sets an annotation of a pod that may have none. Null values of other annotations become the empty string. */
export function annotate(pod: Changeable, key: string, value: string): void {
  if (!isObject(pod['metadata'])) pod['metadata'] = {};
  const metadata = pod['metadata'] as Changeable;
  const annotations = [...mapAt(metadata, 'annotations')].filter(([name]) => name !== key);
  metadata['annotations'] = Object.fromEntries([...annotations, [key, value]]);
}

function fillSeLinux(spec: Changeable, { seLinuxOptions }: Provider): void {
  if (seLinuxOptions === undefined || at(spec, 'securityContext', 'seLinuxOptions') !== undefined) return;
  const members = [...seLinuxOptions].filter(([, value]) => value !== '');
  write(spec, 'seLinuxOptions', Object.fromEntries(members));
}

function fillContainer(container: Changeable, spec: Changeable, pod: Changeable, provider: Provider): void {
  const { scc, runAsUser } = provider;
  const effective = (field: string): unknown =>
    at(container, 'securityContext', field) ?? at(spec, 'securityContext', field);

  if (effective('runAsUser') === undefined) {
    if (runAsUser.type === 'MustRunAs') write(container, 'runAsUser', runAsUser.uid);
    if (runAsUser.type === 'MustRunAsRange') write(container, 'runAsUser', runAsUser.range?.min);
  }
  if (effective('runAsNonRoot') === undefined) {
    const uid = effective('runAsUser');
    const isNonRoot = uid === undefined ? runAsUser.type === 'MustRunAsNonRoot' : (uid as number) > 0;
    if (isNonRoot) write(container, 'runAsNonRoot', true);
  }

  const annotation = mapAt(pod, 'metadata', 'annotations').get(`${CONTAINER_SECCOMP}${textAt(container, 'name')}`);
  if (annotation !== undefined) {
    writeSeccomp(container, getField(annotation));
  }

  fillCapabilities(container, scc);

  if (at(scc, 'readOnlyRootFilesystem') === true && own(container, 'readOnlyRootFilesystem') === undefined) {
    write(container, 'readOnlyRootFilesystem', true);
  }

  const fallback = at(scc, 'defaultAllowPrivilegeEscalation');
  if (
    fallback !== undefined &&
    own(container, 'allowPrivilegeEscalation') === undefined &&
    own(container, 'privileged') !== true &&
    !textsAt(container, 'securityContext', 'capabilities', 'add').includes('CAP_SYS_ADMIN')
  ) {
    write(container, 'allowPrivilegeEscalation', fallback);
  }
  if (at(scc, 'allowPrivilegeEscalation') === false && own(container, 'allowPrivilegeEscalation') === undefined) {
    write(container, 'allowPrivilegeEscalation', false);
  }
}

function own(container: Changeable, field: string): unknown {
  return at(container, 'securityContext', field);
}

function fillCapabilities(container: Changeable, scc: JsonObject): void {
  const added = textsAt(container, 'securityContext', 'capabilities', 'add');
  const dropped = textsAt(container, 'securityContext', 'capabilities', 'drop');
  const byDefault = textsAt(scc, 'defaultAddCapabilities').filter((name) => !dropped.includes(name));
  const add = new Set([...byDefault, ...added]);
  const drop = new Set([...textsAt(scc, 'requiredDropCapabilities'), ...dropped]);
  if (add.size === new Set(added).size && drop.size === new Set(dropped).size) return;
  const sorted = (names: ReadonlySet<string>): string[] =>
    [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  write(container, 'capabilities', {
    ...(add.size === 0 ? {} : { add: sorted(add) }),
    ...(drop.size === 0 ? {} : { drop: sorted(drop) }),
  });
}
