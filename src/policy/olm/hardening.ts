/** Hardens the security contexts of Operator Lifecycle Manager (OLM) pods according to profiles. */
import { withoutTrailingSlashes } from '../../kube/text.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import type { ContainerFields, PodFields } from '../pod/index.ts';

export type ProfileId = 'olm-controller' | 'catalog-source' | 'bundle-unpack' | 'run-bundle';

interface Profile {
  readonly pod: {
    readonly runAsNonRoot?: true;
    readonly runAsUser?: number;
    readonly seccompProfile: { readonly type: 'RuntimeDefault' };
  };
  /** True if the containers do not write to the root filesystem. */
  readonly readOnlyRootFilesystem: boolean;
  /** True if the image sets a non-root user. */
  readonly hasImageUser?: true;
  /** Directory that must stay writable. An emptyDir is mounted there. */
  readonly emptyDir?: string;
}

const SECCOMP_PROFILE = { type: 'RuntimeDefault' } as const;
const NON_ROOT = { runAsNonRoot: true, runAsUser: 1001, seccompProfile: SECCOMP_PROFILE } as const;

export const HARDENING_PROFILES: Readonly<Record<ProfileId, Profile>> = {
  'olm-controller': {
    pod: { runAsNonRoot: true, seccompProfile: SECCOMP_PROFILE },
    readOnlyRootFilesystem: true,
    hasImageUser: true,
    emptyDir: '/tmp',
  },
  // SQLite catalogs copy their database on startup.
  'catalog-source': { pod: NON_ROOT, readOnlyRootFilesystem: false },
  'bundle-unpack': { pod: NON_ROOT, readOnlyRootFilesystem: true },
  // Index images may run as root.
  'run-bundle': { pod: { seccompProfile: SECCOMP_PROFILE }, readOnlyRootFilesystem: false },
};

/** Init container of catalogs that set `extractContent`. The pods of these catalogs write only to volumes. */
const EXTRACT_CONTENT = 'extract-content';
const VOLUME = 'tmpfs';

export interface HardeningInput {
  readonly profile: ProfileId;
  /** True if SCC admission sets `runAsUser` and `runAsNonRoot`. */
  readonly isOpenShift: boolean;
  /** If true, less strict values are replaced. */
  readonly isForced: boolean;
  /** True for a Job template. OLM deletes a Job if a field that OLM sets has a different value. */
  readonly isJob?: boolean;
  /** True if the containers write to the root filesystem, contrary to the profile. */
  readonly writesRootFilesystem?: boolean;
  readonly pod: PodFields;
}

/** A field whose value is kept although it is less strict than the profile. */
interface Conflict {
  /** Path of the field, such as `spec.containers[0].securityContext.privileged`. */
  readonly path: string;
  readonly field: string;
  readonly message: string;
}

export interface Hardened {
  /** The pod or template, or the original object if nothing changes. */
  readonly pod: JsonObject;
  readonly changes: readonly string[];
  readonly conflicts: readonly Conflict[];
}

interface Application extends HardeningInput {
  readonly data: Profile;
  readonly changes: string[];
  readonly conflicts: Conflict[];
}

/** Applies a profile to a pod or pod template. Ephemeral containers are not changed. */
export function hardenPod(input: HardeningInput): Hardened {
  const { pod, profile, isForced, isJob = false } = input;
  // The API server rejects these fields in Windows pods.
  if (pod.osName === 'windows') return { pod: pod.json, changes: [], conflicts: [] };
  const data = HARDENING_PROFILES[profile];
  const state: Application = { ...input, isForced: isForced && !isJob, data, changes: [], conflicts: [] };
  const spec = objectMember(pod.json, 'spec');
  const securityContext = hardenPodContext(state, objectMember(spec, 'securityContext'));
  const uid = readUid(securityContext);
  const initContainers = hardenList(state, 'initContainers', uid);
  const containers = hardenList(state, 'containers', uid);
  const { changes, conflicts } = state;
  if (changes.length === 0) return { pod: pod.json, changes, conflicts };
  const hardened = { ...spec, securityContext, ...(initContainers ? { initContainers } : {}), containers };
  return { pod: { ...pod.json, spec: addEmptyDir(state, hardened) }, changes, conflicts };
}

function readUid({ runAsUser }: JsonObject): number | undefined {
  return typeof runAsUser === 'number' ? runAsUser : undefined;
}

type Context = Record<string, unknown>;

interface FieldChange {
  readonly path: string;
  readonly field: string;
  readonly value: unknown;
  /** True if the existing value is less strict than the profile. */
  readonly isConflict: boolean;
  /** The reason why the value cannot be replaced. */
  readonly obstacle?: string | undefined;
}

/** Sets the field if it is absent. If the value is less strict than the profile, replaces or reports it. */
function applyField(state: Application, context: Context, change: FieldChange): void {
  const { path, field, value, isConflict, obstacle } = change;
  const current = context[field];
  const fullPath = `${path}.${field}`;
  if (current == null ? value !== undefined : isConflict && state.isForced && obstacle === undefined) {
    context[field] = value;
    state.changes.push(fullPath);
  } else if (isConflict && current != null) {
    const reason = obstacle ?? (state.isJob ? 'OLM deletes a Job with a different value' : 'it is set explicitly');
    const text = isObject(current) ? JSON.stringify(current['type']) : JSON.stringify(current);
    state.conflicts.push({ path: fullPath, field, message: `${fullPath}: ${text} is kept because ${reason}` });
  }
}

function hardenPodContext(state: Application, current: JsonObject): JsonObject {
  const { data, isOpenShift, pod } = state;
  const context: Context = { ...current };
  const path = 'spec.securityContext';
  applySeccomp(state, context, path, SECCOMP_PROFILE);
  if (data.pod.runAsNonRoot === undefined) return context;
  applyField(state, context, {
    path,
    field: 'runAsUser',
    value: isOpenShift ? undefined : data.pod.runAsUser,
    isConflict: pod.runAsUser === 0,
  });
  const uid = readUid(context);
  const isNonRoot = uid === undefined ? data.hasImageUser === true : uid !== 0;
  const isRootContainer = pod.containers.some(
    ({ list, runAsUser }) => runAsUser === 0 && list !== 'ephemeralContainers' && !state.isForced,
  );
  const isSafe = isNonRoot && !isRootContainer;
  applyField(state, context, {
    path,
    field: 'runAsNonRoot',
    value: isSafe && !isUserSupplied(state) ? true : undefined,
    isConflict: pod.runAsNonRoot === false,
    obstacle: isSafe || isUserSupplied(state) ? undefined : 'the pod has no non-root user',
  });
  return context;
}

/**
 * Returns true if SCC admission sets the pod's user. In that case, hardening sets neither `runAsUser` nor
 * `runAsNonRoot`.
 */
function isUserSupplied({ isOpenShift, data }: Application): boolean {
  return isOpenShift && data.hasImageUser !== true;
}

function applySeccomp(state: Application, context: Context, path: string, value: unknown): void {
  const profile = context['seccompProfile'];
  const isConflict = isObject(profile) && profile['type'] === 'Unconfined';
  applyField(state, context, { path, field: 'seccompProfile', value, isConflict });
}

type List = 'initContainers' | 'containers';

/** Hardens the containers in a list. Returns `undefined` if the list is absent or empty. */
function hardenList(state: Application, list: List, uid: number | undefined): readonly JsonObject[] | undefined {
  const containers = state.pod.containers.filter((container) => container.list === list);
  if (containers.length === 0) return undefined;
  return containers.map((container) => {
    const { length } = state.changes;
    const securityContext = hardenContainer(state, container, uid);
    return state.changes.length === length ? container.json : { ...container.json, securityContext };
  });
}

function hardenContainer(state: Application, container: ContainerFields, uid: number | undefined): JsonObject {
  const { json, location, privileged, allowPrivilegeEscalation, capabilities } = container;
  const context: Context = { ...objectMember(json, 'securityContext') };
  const path = `spec.${location}.securityContext`;
  const added = capabilities?.add ?? [];
  const gainsPrivileges = privileged || added.some((name) => /^(CAP_)?SYS_ADMIN$/i.test(name));
  const obstacle = privileged ? 'only its author can change a privileged container' : undefined;
  applyField(state, context, { path, field: 'privileged', value: false, isConflict: privileged, obstacle });
  applyRootFilesystem(state, context, path);
  if (!gainsPrivileges || allowPrivilegeEscalation !== undefined) {
    applyField(state, context, {
      path,
      field: 'allowPrivilegeEscalation',
      value: false,
      isConflict: allowPrivilegeEscalation === true,
      obstacle: gainsPrivileges ? 'the container is privileged or adds SYS_ADMIN' : undefined,
    });
  }
  applyCapabilities(state, context, path, container);
  if (container.hasSecurityContext) applyContainerUser(state, context, { path, container, uid });
  return context;
}

function applyRootFilesystem(state: Application, context: Context, path: string): void {
  const { data, pod, profile, isForced, writesRootFilesystem = false } = state;
  const isExtracting =
    profile === 'catalog-source' &&
    pod.containers.some(({ list, name }) => list === 'initContainers' && name === EXTRACT_CONTENT);
  const value = data.readOnlyRootFilesystem || isExtracting;
  const field = 'readOnlyRootFilesystem';
  if (writesRootFilesystem) return;
  // All Pod Security Standards permit a writable root filesystem, so an explicit `false` is replaced only if forced.
  applyField(state, context, { path, field, value, isConflict: isForced && value && context[field] === false });
}

/** Adds ALL to the dropped capabilities. Keeps the list of a Job if there is one. */
function applyCapabilities(
  state: Application,
  context: Context,
  path: string,
  { capabilities }: ContainerFields,
): void {
  const { add = [], drop = [] } = capabilities ?? {};
  const field = 'capabilities.drop';
  const added = add.filter((name) => name !== 'NET_BIND_SERVICE');
  if (added.length > 0) {
    const message = `${path}.capabilities.add: ${JSON.stringify(added)} is kept although the restricted level allows only NET_BIND_SERVICE`;
    state.conflicts.push({ path: `${path}.capabilities.add`, field: 'capabilities.add', message });
  }
  if (drop.some((name) => name === 'ALL' || name === 'all')) return;
  if (state.isJob && drop.length > 0) {
    const message = `${path}.${field}: ${JSON.stringify(drop)} is kept because OLM deletes a Job with a different value`;
    state.conflicts.push({ path: `${path}.${field}`, field, message });
    return;
  }
  context['capabilities'] = { ...objectMember(context, 'capabilities'), drop: [...drop, 'ALL'] };
  state.changes.push(`${path}.${field}`);
}

interface ContainerUser {
  readonly path: string;
  readonly container: ContainerFields;
  readonly uid: number | undefined;
}

/**
 * Handles container values, which override pod values. In force mode, removes less strict container values, so the pod
 * values apply.
 */
function applyContainerUser(state: Application, context: Context, { path, container, uid }: ContainerUser): void {
  const isRoot = container.runAsUser === 0;
  const isRootAllowed = container.runAsNonRoot === false;
  const isUnconfined = container.seccompProfile?.type === 'Unconfined';
  if (isUnconfined) applySeccomp(state, context, path, SECCOMP_PROFILE);
  if (state.data.pod.runAsNonRoot === undefined) return;
  if (isRoot) applyField(state, context, { path, field: 'runAsUser', value: undefined, isConflict: true });
  if (!isRootAllowed) return;
  const isNonRoot = (readUid(context) ?? uid ?? (state.data.hasImageUser ? 1 : 0)) !== 0;
  const obstacle = isNonRoot || isUserSupplied(state) ? undefined : 'the container has no non-root user';
  const value = isUserSupplied(state) ? undefined : true;
  applyField(state, context, { path, field: 'runAsNonRoot', value, isConflict: true, obstacle });
}

/**
 * Mounts an emptyDir in each container whose root filesystem becomes read-only, at the directory that must stay
 * writable.
 */
function addEmptyDir(state: Application, spec: JsonObject): JsonObject {
  const { emptyDir } = state.data;
  if (emptyDir === undefined) return spec;
  const mounted = new Set<unknown>();
  const changes = new Set(state.changes);
  const volumes: readonly unknown[] = Array.isArray(spec['volumes']) ? spec['volumes'] : [];
  const name = volumeName(volumes);
  const addMount = (list: List): JsonObject => {
    const containers = spec[list];
    if (!Array.isArray(containers)) return {};
    return {
      [list]: containers.map((container: JsonObject, index) => {
        const isChanged = changes.has(`spec.${list}[${index}].securityContext.readOnlyRootFilesystem`);
        const mounts: readonly unknown[] = Array.isArray(container['volumeMounts']) ? container['volumeMounts'] : [];
        const hasMount = mounts.some((mount) => isObject(mount) && isMountedAt(mount, emptyDir));
        if (!isChanged || hasMount) return container;
        mounted.add(container);
        return { ...container, volumeMounts: [...mounts, { name, mountPath: emptyDir }] };
      }),
    };
  };
  const lists = { ...addMount('initContainers'), ...addMount('containers') };
  if (mounted.size === 0) return spec;
  const hasVolume = volumes.some((volume) => isObject(volume) && volume['name'] === name);
  state.changes.push('spec.volumes');
  return { ...spec, ...lists, volumes: hasVolume ? volumes : [...volumes, { name, emptyDir: {} }] };
}

/**
 * Returns the name for the emptyDir. Reuses an existing emptyDir, but no other volume, because it might be shared or
 * read-only.
 */
function volumeName(volumes: readonly unknown[]): string {
  const isUsed = (volume: unknown): volume is JsonObject => isObject(volume) && !isObject(volume['emptyDir']);
  const used = new Set(volumes.filter(isUsed).map((volume) => volume['name']));
  let name = VOLUME;
  while (used.has(name)) name += '-0';
  return name;
}

function isMountedAt({ mountPath }: JsonObject, directory: string): boolean {
  return typeof mountPath === 'string' && withoutTrailingSlashes(mountPath) === directory;
}
