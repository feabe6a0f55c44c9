import type { GroupFields, RunAsUserFields, SccFields, SeLinuxContextFields } from './decode/scc.ts';
import type { Found, NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';
import type { Bound } from './strategies/types.ts';

/**
 * Fills in what an SCC leaves to the namespace; an error says why the SCC cannot work there.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccmatching/matcher.go
 */
export function bindScc(scc: PreparedScc, namespace: NamespaceRanges): Found<Bound> {
  if (scc.problem !== undefined) return cannotCreate(scc, namespace, scc.problem);
  const { fields } = scc;
  const runAsUser = bindRunAsUser(fields, namespace);
  if ('error' in runAsUser) return notFound(scc, namespace, { what: 'uid', why: runAsUser.error });
  const seLinuxContext = bindSeLinuxContext(fields, namespace);
  if ('error' in seLinuxContext) return notFound(scc, namespace, { what: 'mcs', why: seLinuxContext.error });
  const fsGroup = bindFsGroup(fields, namespace);
  if ('error' in fsGroup) return notFound(scc, namespace, { what: 'group', why: fsGroup.error });
  const supplementalGroups = bindSupplementalGroups(fields, namespace);
  if ('error' in supplementalGroups) return notFound(scc, namespace, { what: 'group', why: supplementalGroups.error });
  const bound: Bound = {
    runAsUser: runAsUser.value,
    seLinuxContext: seLinuxContext.value,
    fsGroup: fsGroup.value,
    supplementalGroups: supplementalGroups.value,
  };
  const lack = findLack(bound);
  return lack === undefined ? { value: bound } : cannotCreate(scc, namespace, lack);
}

function bindRunAsUser({ runAsUser: options }: SccFields, namespace: NamespaceRanges): Found<RunAsUserFields> {
  const isOpen = options.uidRangeMin === undefined && options.uidRangeMax === undefined;
  if (options.type !== 'MustRunAsRange' || !isOpen) return { value: options };
  const range = namespace.uidRange();
  if ('error' in range) return range;
  return { value: { ...options, uidRangeMin: range.value.min, uidRangeMax: range.value.max } };
}

function bindSeLinuxContext(
  { seLinuxContext: options }: SccFields,
  namespace: NamespaceRanges,
): Found<SeLinuxContextFields> {
  const { type, seLinuxOptions: fixed } = options;
  if (type !== 'MustRunAs' || (fixed !== undefined && fixed.level !== '')) return { value: options };
  const level = namespace.seLinuxLevel();
  if ('error' in level) return level;
  const seLinuxOptions = { role: '', type: '', user: '', ...fixed, level: level.value };
  return { value: { type, seLinuxOptions } };
}

/** Only the first id of the first block. */
function bindFsGroup({ fsGroup: options }: SccFields, namespace: NamespaceRanges): Found<GroupFields> {
  if (!isOpenToGroups(options)) return { value: options };
  const blocks = namespace.groupRanges();
  if ('error' in blocks) return blocks;
  return { value: { type: options.type, ranges: blocks.value.slice(0, 1).map(({ min }) => ({ min, max: min })) } };
}

/** All blocks in full. */
function bindSupplementalGroups(
  { supplementalGroups: options }: SccFields,
  namespace: NamespaceRanges,
): Found<GroupFields> {
  if (!isOpenToGroups(options)) return { value: options };
  const blocks = namespace.groupRanges();
  return 'error' in blocks ? blocks : { value: { type: options.type, ranges: blocks.value } };
}

function isOpenToGroups({ type, ranges }: GroupFields): boolean {
  return type === 'MustRunAs' && ranges.length === 0;
}

/** What keeps the strategies from working: an unknown type, or options that are missing. */
function findLack({ runAsUser, seLinuxContext, fsGroup, supplementalGroups }: Bound): string | undefined {
  return (
    lackOf(RUN_AS_USER, runAsUser, 'RunAsUser') ??
    lackOf(SE_LINUX_CONTEXT, seLinuxContext, 'SELinuxContext') ??
    lackOf(GROUPS, fsGroup, 'FSGroup') ??
    lackOf(GROUPS, supplementalGroups, 'SupplementalGroups')
  );
}

function lackOf<Options extends { readonly type: string }>(
  strategies: ReadonlyMap<string, { problem(options: Options): string | undefined }>,
  options: Options,
  name: string,
): string | undefined {
  const strategy = strategies.get(options.type);
  return strategy ? strategy.problem(options) : `Unrecognized ${name} strategy type ${options.type}`;
}

function notFound(
  { name }: PreparedScc,
  namespace: NamespaceRanges,
  { what, why }: { readonly what: string; readonly why: string },
): Found<never> {
  const where = `for namespace ${namespace.name} while trying to configure SCC ${name}`;
  return { error: `unable to find pre-allocated ${what} annotation ${where}: ${why}` };
}

function cannotCreate({ name }: PreparedScc, namespace: NamespaceRanges, cause: string): Found<never> {
  return { error: `error creating provider for SCC ${name} in namespace ${namespace.name}: ${cause}` };
}
