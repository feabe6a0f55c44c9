-- Health of PortcullisConfigurations, PSAEnforcementConfigs and PodSecurityExceptions in Argo CD.
local health = { status = "Progressing", message = "Waiting for the leader to report the status" }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the leader to read the current generation"
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
-- These exceptions wait for an approval.
local unapproved = { NotApproved = true, SpecChanged = true, SelfApproved = true }
local ready, violations, stalled = conditions.Ready, conditions.ViolationsDetected, conditions.Stalled
if ready ~= nil then
  health.message = ready.message
  if ready.status == "True" then
    health.status = "Healthy"
  elseif unapproved[ready.reason] then
    health.status = "Suspended"
  end
end
-- A cluster in which workloads would be denied is ready, because only a user can continue its rollout.
if health.status == "Healthy" and violations ~= nil and violations.status == "True" then
  health.status = "Suspended"
  health.message = violations.message
end
if stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
  health.message = stalled.message
end
return health
