/** Evaluates the stored roles and bindings. Determines whether a user may perform an action, and who may perform it. */
export {
  createAuthorizer,
  createRbac,
  grantNamespace,
  type Rbac,
  readRoleRef,
  readSubject,
  selectSubjects,
} from './authorizer.ts';
export {
  type Action,
  CLUSTER_ADMIN,
  RBAC_KINDS,
  type RbacKind,
  type RbacObjects,
  readRules,
  ruleAllows,
  selectRules,
  USE_SCC,
  type User,
  type VerifiedRule,
} from './rules.ts';
export {
  findGrants,
  matchesUser,
  type ObjectName,
  printSubject,
  type RbacGrant,
  type SubjectName,
  whoCan,
} from './who-can.ts';
